import { useEffect, useRef, useState } from 'react'
import type uPlot from 'uplot'
import { useIsDark } from '../../theme.ts'
import { type ChartCursor, DAY, drawChart, resizeChart } from './draw-chart.ts'

/** One series of a chart, with a value per day. */
export interface Series {
  label: string
  /** What one and several of it are called: "12 active users". */
  unit: { one: string; many: string }
  values: number[]
  tone: 'accent' | 'good' | 'warn' | 'danger'
}

const SWATCHES: Record<Series['tone'], string> = {
  accent: 'bg-accent',
  good: 'bg-good',
  warn: 'bg-warn',
  danger: 'bg-danger',
}

/** A value of a series in words: "1 active user". */
function inWords({ values, unit }: Series, index: number): string {
  const value = values[index] ?? 0
  return `${value.toLocaleString('en')} ${value === 1 ? unit.one : unit.many}`
}

/** Whether the last day is today, of which some hours are still missing. */
function isPartial(dates: readonly string[]): boolean {
  return (dates.at(-1) ?? '') >= new Date().toISOString().slice(0, 10)
}

function Legend({ series, partial }: { series: readonly Series[]; partial: boolean }) {
  return (
    <ul aria-hidden className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-soft">
      {series.map(({ label, tone }) => (
        <li key={label} className="flex items-center gap-1.5">
          <span className={`size-2 rounded-full ${SWATCHES[tone]}`} />
          {label}
        </li>
      ))}
      {partial ? (
        <li className="flex items-center gap-1.5">
          <span className="w-4 border-t-2 border-dashed border-edge" />
          Today so far
        </li>
      ) : null}
    </ul>
  )
}

function Tooltip({ cursor, dates, series }: { cursor: ChartCursor; dates: readonly string[]; series: Series[] }) {
  const date = dates[cursor.index]
  if (date === undefined) return null
  return (
    <div
      aria-hidden
      className={`pointer-events-none absolute top-8 z-1 rounded-control border bg-surface px-3 py-2 text-xs whitespace-nowrap shadow-popup ${cursor.isRight ? '-translate-x-[calc(100%+12px)]' : 'translate-x-3'}`}
      ref={(element) => {
        if (element !== null) element.style.left = `${cursor.left}px`
      }}
    >
      <p className="mb-1 text-soft">{DAY.format(Date.parse(date))}</p>
      {series.map((each) => (
        <p key={each.label} className="flex items-center gap-1.5 font-medium tabular-nums">
          <span className={`size-2 rounded-full ${SWATCHES[each.tone]}`} />
          {inWords(each, cursor.index)}
        </p>
      ))}
    </div>
  )
}

/** The same figures for assistive technology. */
function FiguresTable({ label, dates, series }: { label: string; dates: readonly string[]; series: Series[] }) {
  return (
    // The table itself would not stay as small as this class makes it.
    <div className="sr-only">
      <table>
        <caption>{label}</caption>
        <thead>
          <tr>
            <th>Day</th>
            {series.map((each) => (
              <th key={each.label}>{each.label}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {dates.map((date, index) => (
            <tr key={date}>
              <td>{date}</td>
              {series.map((each) => (
                <td key={each.label}>{each.values[index]}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Plot({ dates, series, partial }: { dates: string[]; series: Series[]; partial: boolean }) {
  const holder = useRef<HTMLDivElement>(null)
  const [cursor, setCursor] = useState<ChartCursor | null>(null)
  const dark = useIsDark()
  const data = JSON.stringify([dates, series])
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn again for other figures and other colours
  useEffect(() => {
    const element = holder.current
    if (element === null || dates.length === 0) return undefined
    const plot: uPlot = drawChart(element, { dates, series, partial, onCursor: setCursor })
    const resized = new ResizeObserver(() => resizeChart(plot, element))
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [data, dark])
  return (
    <>
      <Legend series={series} partial={partial} />
      <div ref={holder} aria-hidden className="min-h-55 min-w-0 overflow-hidden" />
      {cursor === null ? null : <Tooltip cursor={cursor} dates={dates} series={series} />}
    </>
  )
}

/** Areas over days (`YYYY-MM-DD`, UTC). `label` names the figures for assistive technology. */
export function DailyChart({ label, dates, series }: { label: string; dates: string[]; series: Series[] }) {
  const isEmpty = series.every(({ values }) => values.every((value) => value === 0))
  return (
    <figure className="relative flex min-w-0 flex-col gap-2">
      {isEmpty ? (
        <p className="flex h-28 items-center justify-center rounded-control bg-raised/60 text-sm text-soft">
          No activity in this period
        </p>
      ) : (
        <Plot dates={dates} series={series} partial={isPartial(dates)} />
      )}
      <FiguresTable label={label} dates={dates} series={series} />
    </figure>
  )
}

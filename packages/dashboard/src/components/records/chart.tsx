import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import { useIsDark } from '../../theme.ts'

/** One series of a chart, with a value per day. */
export interface Series {
  label: string
  values: number[]
  tone?: 'accent' | 'good' | 'warn' | 'danger' | 'soft'
}

const HEIGHT_PX = 220
const DAY = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' })

/** A theme colour resolved for the canvas. */
function colour(element: HTMLElement, name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(--color-${name})`
  element.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

function draw(element: HTMLElement, dates: string[], series: Series[]): uPlot {
  const soft = colour(element, 'soft')
  const line = colour(element, 'line')
  const axis: uPlot.Axis = {
    stroke: soft,
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
    font: '12px system-ui',
  }
  return new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT_PX,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'UTC'),
      scales: { y: { range: (_, __, max) => [0, Math.max(4, max * 1.1)] } },
      axes: [
        { ...axis, values: (_, splits) => splits.map((at) => DAY.format(at * 1000)), space: 60 },
        { ...axis, size: 44 },
      ],
      series: [
        { label: 'Day', value: (_, seconds) => (seconds === null ? '–' : DAY.format(seconds * 1000)) },
        ...series.map(({ label, tone }) => {
          const stroke = colour(element, tone ?? 'accent')
          return { label, stroke, width: 2, points: { show: dates.length <= 14, size: 5, fill: stroke } }
        }),
      ],
      cursor: { y: false, points: { size: 7 } },
    },
    [dates.map((date) => Date.parse(date) / 1000), ...series.map(({ values }) => values)],
    element,
  )
}

/**
 * Lines over days (`YYYY-MM-DD`, UTC). Its figures are in a table too, which is there for assistive technology; `label`
 * names both.
 */
export function DailyChart({ label, dates, series }: { label: string; dates: string[]; series: Series[] }) {
  const holder = useRef<HTMLDivElement>(null)
  const dark = useIsDark()
  const data = JSON.stringify([dates, series])
  // biome-ignore lint/correctness/useExhaustiveDependencies: drawn anew for other figures and other colours
  useEffect(() => {
    const element = holder.current
    if (element === null || dates.length === 0) return undefined
    const plot = draw(element, dates, series)
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }))
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [data, dark])
  return (
    <figure className="relative min-w-0">
      <div
        ref={holder}
        aria-hidden
        className="min-h-62 min-w-0 overflow-hidden text-sm [&_.u-legend]:text-soft [&_.u-legend_th]:font-normal"
      />
      {/* The table itself would not stay as small as this class makes it. */}
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
    </figure>
  )
}

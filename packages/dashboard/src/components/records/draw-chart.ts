import uPlot from 'uplot'
import type { Series } from './chart.tsx'

/** The day that the pointer is over. */
export interface ChartCursor {
  index: number
  /** In pixels from the left of the chart. */
  left: number
  /** Whether it is in the right half, where a tooltip belongs at its left. */
  isRight: boolean
}

/** A day in words: "Nov 21". */
export const DAY = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' })

const HEIGHT_PX = 220
const MAX_MIN = 4
const WHOLE_STEPS = [1, 2, 5]
  .flatMap((step) => Array.from({ length: 9 }, (_, power) => step * 10 ** power))
  .sort((a, b) => a - b)

/** A colour resolved for the canvas, which knows no variables. */
function resolve(element: HTMLElement, colour: string): string {
  const probe = document.createElement('span')
  probe.style.color = colour
  element.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

interface Drawing {
  dates: string[]
  series: Series[]
  /** Whether the last day is not over: its line is dashed. */
  partial: boolean
  onCursor: (cursor: ChartCursor | null) => void
}

/** The whole days of a series, and the line from the last of them to a day that is not over. */
function split(values: number[], partial: boolean): [(number | null)[], (number | null)[]] {
  if (!partial) return [values, values.map(() => null)]
  const last = values.length - 1
  return [
    values.map((value, index) => (index === last && last > 0 ? null : value)),
    values.map((value, index) => (index >= last - 1 ? value : null)),
  ]
}

function linesOf(element: HTMLElement, series: Series[]): uPlot.Series[] {
  return series.flatMap(({ tone }) => {
    const stroke = resolve(element, `var(--${tone})`)
    const fill = resolve(element, `color-mix(in srgb, var(--${tone}) 12%, transparent)`)
    const line = { stroke, width: 2, fill, points: { show: false } }
    return [line, { ...line, dash: [4, 4] }]
  })
}

/** Draws a chart into an element. */
export function drawChart(element: HTMLElement, { dates, series, partial, onCursor }: Drawing): uPlot {
  const axis: uPlot.Axis = {
    stroke: resolve(element, 'var(--soft)'),
    grid: { show: false },
    ticks: { show: false },
    font: `11px ${getComputedStyle(element).fontFamily}`,
  }
  const follow = ({ cursor, over }: uPlot) => {
    const { idx, left = -1 } = cursor
    if (idx === null || idx === undefined || left < 0) return onCursor(null)
    const offset = over.offsetLeft + left
    onCursor({ index: idx, left: offset, isRight: offset > element.clientWidth / 2 })
  }
  return new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT_PX,
      padding: [12, 4, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'UTC'),
      legend: { show: false },
      scales: { y: { range: (_, __, max) => [0, Math.max(MAX_MIN, max * 1.1)] } },
      axes: [
        { ...axis, values: (_, splits) => splits.map((at) => DAY.format(at * 1000)), space: 70, size: 28 },
        {
          ...axis,
          size: 36,
          incrs: WHOLE_STEPS,
          grid: { stroke: resolve(element, 'var(--line)'), width: 1 },
        },
      ],
      series: [{}, ...linesOf(element, series)],
      cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
      hooks: { setCursor: [follow] },
    },
    [dates.map((date) => Date.parse(date) / 1000), ...series.flatMap(({ values }) => split(values, partial))],
    element,
  )
}

/** Fits a chart to its element. */
export function resizeChart(plot: uPlot, element: HTMLElement): void {
  plot.setSize({ width: element.clientWidth, height: HEIGHT_PX })
}

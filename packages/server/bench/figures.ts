/** The p-th percentile (0…1) by the nearest-rank method; NaN of nothing. */
function percentile(values: readonly number[] | Float64Array, p: number): number {
  if (values.length === 0) return Number.NaN
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] as number
}

export const median = (values: readonly number[]) => percentile(values, 0.5)

/** What a set of durations comes to, in milliseconds. */
export interface Spread {
  count: number
  p50: number
  p99: number
  max: number
}

export function spread(values: readonly number[] | Float64Array): Spread {
  return {
    count: values.length,
    p50: percentile(values, 0.5),
    p99: percentile(values, 0.99),
    max: percentile(values, 1),
  }
}

/** Median of each figure over several runs. */
export function medianSpread(spreads: readonly Spread[]): Spread {
  const of = (key: keyof Spread) => median(spreads.map((each) => each[key]))
  return { count: of('count'), p50: of('p50'), p99: of('p99'), max: of('max') }
}

export const whole = (value: number) =>
  Number.isFinite(value) ? Math.round(value).toLocaleString('en').replaceAll(',', ' ') : '–'

export function ms(value: number): string {
  if (!Number.isFinite(value)) return '–'
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2)} ms`
}

export const spreadText = (each: Spread) => `p50 ${ms(each.p50)}, p99 ${ms(each.p99)}`

export const pause = (forMs: number) => new Promise<void>((resolve) => setTimeout(resolve, forMs))

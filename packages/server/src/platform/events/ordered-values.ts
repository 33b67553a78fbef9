/** A longer text is no decimal. */
export const DECIMAL_CHARS_MAX = 100
const DECIMAL = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?$/

interface Decimal {
  sign: -1 | 0 | 1
  /** Digits without leading zeros. */
  whole: string
  /** Digits without zeros at the end. */
  fraction: string
}

/** A value that has an order, among those of its kind: JSON numbers, decimals as text, other texts. */
export type Ordered =
  | { kind: 'number'; value: number }
  | { kind: 'decimal'; value: Decimal }
  | { kind: 'text'; value: string }

function decimalOf(text: string): Decimal | null {
  const match = text.length > DECIMAL_CHARS_MAX ? null : DECIMAL.exec(text)
  if (match === null) return null
  const [, minus, whole = '', digits = ''] = match
  const fraction = digits.replace(/0+$/, '')
  const sign = whole === '0' && fraction === '' ? 0 : minus === '' ? 1 : -1
  return { sign, whole, fraction }
}

/** The value with its kind; null for what has no order. */
export function orderedOf(value: unknown): Ordered | null {
  if (typeof value === 'number') return { kind: 'number', value }
  if (typeof value !== 'string') return null
  const decimal = decimalOf(value)
  return decimal === null ? { kind: 'text', value } : { kind: 'decimal', value: decimal }
}

const compare = <T extends number | string>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.sign !== b.sign) return a.sign - b.sign
  const size = compare(a.whole.length, b.whole.length) || compare(a.whole, b.whole) || compare(a.fraction, b.fraction)
  return a.sign * size
}

/** Below, at or above 0 as `a` is smaller, equal or larger; null for values of two kinds. Decimals compare exactly. */
export function compareOrdered(a: Ordered, b: Ordered): number | null {
  if (a.kind === 'decimal' && b.kind === 'decimal') return compareDecimals(a.value, b.value)
  if (a.kind === 'number' && b.kind === 'number') return compare(a.value, b.value)
  if (a.kind === 'text' && b.kind === 'text') return compare(a.value, b.value)
  return null
}

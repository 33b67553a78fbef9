/** Decimals that an amount can have. */
const DECIMALS = 10
const FORM = /^(0|[1-9]\d{0,27})(\.\d{1,10})?$/
const SCALE = 10n ** BigInt(DECIMALS)

/** The largest amount there is, in base units: 28 digits before the point and 10 after it. */
export const UNITS_MAX = 10n ** 38n - 1n

/** How an amount is written, for schemas. */
export const AMOUNT_PATTERN = FORM

/** An amount in base units of 10^-10; null for an invalid text: signs, exponents, spaces, more than ten decimals. */
export function parseAmount(text: string): bigint | null {
  const match = FORM.exec(text)
  if (match === null) return null
  const [, whole, fraction = '.'] = match
  return BigInt(whole as string) * SCALE + BigInt(fraction.slice(1).padEnd(DECIMALS, '0'))
}

/** Base units as an amount in its shortest form: no zeros at the end, no point without decimals. */
export function formatAmount(units: bigint): string {
  const text = units.toString().padStart(DECIMALS + 1, '0')
  const fraction = text.slice(-DECIMALS).replace(/0+$/, '')
  return text.slice(0, -DECIMALS) + (fraction === '' ? '' : `.${fraction}`)
}

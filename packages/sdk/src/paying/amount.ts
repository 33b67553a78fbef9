/** Decimals that an amount can have. */
const DECIMALS = 10

/** How an amount is written: without sign, exponent, spaces or leading zeros; ASCII digits only. */
export const AMOUNT = /^(0|[1-9]\d{0,27})(\.\d{1,10})?$/

/** An amount in base units of 10^-10; null for an invalid text. */
export function parseAmount(text: string): bigint | null {
  const match = AMOUNT.exec(text)
  if (match === null) return null
  const [, whole = '0', fraction = '.'] = match
  return BigInt(whole) * 10n ** BigInt(DECIMALS) + BigInt(fraction.slice(1).padEnd(DECIMALS, '0'))
}

/** Base units as an amount in its shortest form. */
export function formatAmount(units: bigint): string {
  const text = units.toString().padStart(DECIMALS + 1, '0')
  const fraction = text.slice(-DECIMALS).replace(/0+$/, '')
  return text.slice(0, -DECIMALS) + (fraction === '' ? '' : `.${fraction}`)
}

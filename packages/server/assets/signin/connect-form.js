import { make, visible } from './dom.js'
import { t } from './texts.js'
import { field } from './ui.js'
import { Refused } from './words.js'

/** @typedef {import('../../src/delegation/connect/connect-schema.ts').AgentRequest} AgentRequest */
/** @typedef {import('../../src/delegation/connect/connect-schema.ts').ConnectAgent} ConnectAgent */
/** @typedef {ReturnType<typeof field>} Field */
/** @typedef {ConnectAgent['spend'][number]['asset']} Asset */
/** @typedef {{ asset: Asset, input: Field, most: string | null, needed: boolean, unlimited: HTMLInputElement | null, elements: Node[] }} SpendField */

const HOUR_SECONDS = 3_600
const HOURS_MAX = 720

const WINDOWS = { lifetime: t`in total`, rolling_24h: t`in 24 hours`, day_utc: t`per day (UTC)` }

const AMOUNT = /^(0|[1-9]\d{0,27})(\.\d{1,10})?$/
const PARTY = /^\S{1,255}::1220[0-9a-f]{64}$/

/** @param {string} amount */
function unitsOf(amount) {
  const [whole = '0', fraction = ''] = amount.split('.')
  return BigInt(whole + fraction.padEnd(10, '0'))
}

/**
 * A field for each amount that the agent may spend.
 * @param {AgentRequest} asked
 * @returns {SpendField[]}
 */
export function spendFields({ policy, holdings }) {
  const asked = (policy?.spend ?? []).map(({ asset, amount = null, window = 'lifetime' }) => ({
    asset,
    most: amount,
    value: amount ?? '',
    needed: true,
    hint: t`${WINDOWS[window]}, issued by ${asset.issuer}.`,
  }))
  const owned = (policy === null ? (holdings ?? []) : []).map(({ asset, amount }) => ({
    asset,
    most: null,
    value: '',
    needed: false,
    hint: t`In total, of the ${amount} that you have, issued by ${asset.issuer}. Empty: nothing.`,
  }))
  return [...asked, ...owned].map(({ asset, most, value, needed, hint }, index) => {
    const symbol = visible(asset.symbol)
    const input = field({
      label: t`Can spend at most, in ${symbol}`,
      hint,
      attributes: { name: `spend.${index}.amount`, value, inputmode: 'decimal', autocomplete: 'off', maxlength: 40 },
    })
    const unlimited =
      needed && most === null ? make('input', { type: 'checkbox', name: `spend.${index}.unlimited` }) : null
    const box = unlimited && make('label', {}, unlimited, ' ', t`Without a limit, in ${symbol}`)
    return { asset, most, needed, input, unlimited, elements: box === null ? [input.element] : [input.element, box] }
  })
}

/**
 * Whether naming recipients does what it says: it is a condition on the argument `receiver`, which a transfer of Token:Holding has.
 * @param {AgentRequest} asked
 */
export const namesRecipients = ({ policy }) =>
  policy === null || policy.allow.every(({ templateId }) => templateId === 'Token:Holding')

export const recipientsField = () =>
  field({
    label: t`Only to these parties`,
    optional: true,
    hint: t`Their ids, with spaces between them.`,
    attributes: { name: 'recipients', autocomplete: 'off', spellcheck: 'false' },
  })

/** @param {AgentRequest} asked */
export const expiryField = ({ proposedSeconds }) =>
  field({
    label: t`Ends after, in hours`,
    hint: t`Then it has to ask you again.`,
    attributes: {
      name: 'expiresInSeconds',
      inputmode: 'decimal',
      autocomplete: 'off',
      maxlength: 10,
      value: String(Math.round((proposedSeconds / HOUR_SECONDS) * 1e4) / 1e4),
    },
  })

/**
 * @param {SpendField} one
 * @param {number} index
 */
function amountOf({ input, most, needed, unlimited }, index) {
  const amount = input.input.value.trim()
  const name = `spend.${index}.amount`
  if (amount === '' && !needed) return null
  if (unlimited?.checked) {
    if (amount !== '') throw new Refused(t`Enter an amount, or choose “Without a limit”, but not both.`, name)
    return null
  }
  if (amount === '' && unlimited !== null)
    throw new Refused(t`Enter an amount, or choose “Without a limit” below.`, name)
  if (!AMOUNT.test(amount)) throw new Refused(t`Enter an amount, for example 10.5.`, name)
  if (most !== null && unitsOf(amount) > unitsOf(most))
    throw new Refused(t`The agent asked for ${most}: enter that or less.`, name)
  return amount
}

/** @param {Field} recipients */
function partiesOf({ input }) {
  const parties = [...new Set(input.value.split(/[\s,]+/).filter((each) => each !== ''))]
  const wrong = parties.find((each) => !PARTY.test(each))
  if (wrong !== undefined)
    throw new Refused(
      t`One of these is not a party id. A party id is a name, “::1220” and 64 hexadecimal digits.`,
      'recipients',
    )
  return parties.length === 0 ? null : parties
}

/**
 * @param {AgentRequest} asked
 * @param {Field} expiry
 */
function secondsOf({ expiresInSeconds: most }, { input }) {
  const text = input.value.trim()
  // What was asked for is left as it is, whatever it is in hours.
  if (most !== null && text === input.defaultValue) return most
  const hours = Number(text)
  const seconds = Math.round(hours * HOUR_SECONDS)
  if (!/^\d+(\.\d+)?$/.test(text) || seconds < 60 || hours > HOURS_MAX)
    throw new Refused(t`Enter a number of hours, at most ${HOURS_MAX}.`, 'expiresInSeconds')
  if (most !== null && seconds > most)
    throw new Refused(t`The agent asked for ${input.defaultValue} hours: enter that or less.`, 'expiresInSeconds')
  return seconds
}

/**
 * What the user allows.
 * @param {AgentRequest} asked
 * @param {{ spend: SpendField[], recipients: Field, expiry: Field }} fields
 * @returns {ConnectAgent}
 * @throws Refused, naming the field
 */
export function checkedForm(asked, { spend, recipients, expiry }) {
  const allowed = spend.map((one, index) => ({ asset: one.asset, amount: amountOf(one, index) }))
  return {
    // Of what the user holds, what they left empty is not spent at all.
    spend: asked.policy === null ? allowed.filter(({ amount }) => amount !== null) : allowed,
    recipients: partiesOf(recipients),
    expiresInSeconds: secondsOf(asked, expiry),
  }
}

import { ApiError } from './client.js'
import { make } from './dom.js'
import { codeRefusal, startEmail } from './email.js'
import { codeField, digitsOf } from './mfa-form.js'
import { part } from './part.js'
import { withStepUp } from './step-up.js'
import { t } from './texts.js'
import { button, field, onSubmit } from './ui.js'

const WRONG_FORM = t`Enter the 6 digits from the email.`

/**
 * Whether the user can sign in by email, and the way to it: a code confirms the address. Codes of both mailboxes replace it.
 * @param {import('./page.js').Page} page
 * @param {(said: string) => void} again shows the account with another address
 */
export function emailPart(page, again) {
  return part({
    title: t`Sign-in by email`,
    lead: t`Get a code by email when you have no passkey at hand.`,
    load: async (self) => {
      const identities = await page.client.list('auth/identities')
      const { email } = page.user
      if (email === null) return [addressForm(self, (form, address) => confirm(page, self, form, address))]
      const isOn = page.user.emailVerified && identities.some(({ provider }) => provider === 'email')
      return [present(page, self, { email, isOn, again })]
    },
  }).element
}

/**
 * The address that there is, and what can be done with it.
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {{ email: string, isOn: boolean, again: (said: string) => void }} options
 */
function present(page, self, { email, isOn, again }) {
  const send = button({ label: t`Confirm your address`, kind: 'secondary', iconName: 'mail' })
  const change = button({ label: t`Change your address`, kind: 'secondary' })
  const words = isOn ? t`Codes are sent to ${email}.` : email
  const content = make(
    'div',
    { class: 'stack' },
    make('p', { class: 'quiet-text', dir: 'auto' }, words),
    ...(isOn ? [] : [send]),
    change,
  )
  send.addEventListener('click', () => self.run(send, t`Sending…`, () => confirm(page, self, content, email)))
  change.addEventListener('click', () => {
    const form = addressForm(self, (from, address) => replace(page, self, { from, address, again }), {
      label: t`New email`,
      taken: email,
    })
    content.replaceWith(form)
    form.querySelector('input')?.focus()
  })
  return content
}

/**
 * @param {import('./part.js').Part} self
 * @param {(form: HTMLElement, email: string) => Promise<void>} onAddress
 * @param {{ label?: string, taken?: string }} [options] `taken`: the address that it must not be
 */
function addressForm(self, onAddress, { label = t`Email`, taken } = {}) {
  const address = field({
    label,
    attributes: { name: 'email', type: 'email', autocomplete: 'email', inputmode: 'email', maxlength: 320 },
  })
  const send = button({ label: t`Send code`, kind: 'secondary', iconName: 'mail', submit: true })
  const form = make('form', { class: 'stack' }, address.element, send)
  onSubmit(form, () => {
    const email = address.input.value.trim()
    if (email === '') return address.refuse(t`Enter your email address.`)
    if (email.toLowerCase() === taken?.toLowerCase()) return address.refuse(t`This is your address already.`)
    self.run(send, t`Sending…`, () => onAddress(form, email))
  })
  return form
}

/**
 * Sends a code, and asks for it in the place of what was there.
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {HTMLElement} content
 * @param {string} email
 */
async function confirm(page, self, content, email) {
  const body = { email, purpose: 'link' }
  const { challengeId } = await withStepUp(page, () => startEmail(page, body))
  const code = codeField()
  const words = t`Enter the code that we sent to ${email}.`
  codesForm(self, content, { words, codes: [code], label: t`Confirm` }, async ([digits]) => {
    try {
      page.user = await page.client.call('POST', 'auth/email/link', { challengeId, code: digits })
    } catch (error) {
      throw codeRefusal(error)
    }
    await self.reload(t`Your address is confirmed.`)
  })
}

/**
 * Sends a code to the new address and, if it was confirmed, to the present one, and asks for both.
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {{ from: HTMLElement, address: string, again: (said: string) => void }} options
 */
async function replace(page, self, { from, address, again }) {
  const present = page.user.email
  const asked = { email: address, purpose: 'change' }
  const { challengeId, currentChallengeId } = await withStepUp(page, () => startEmail(page, asked))
  const both = currentChallengeId !== null
  const codes = [codeField(t`Code sent to ${address}`), ...(both ? [codeField(t`Code sent to ${present}`)] : [])]
  const words = both ? t`We sent a code to each address. Enter both.` : t`Enter the code that we sent to ${address}.`
  codesForm(self, from, { words, codes, label: t`Change address` }, async ([code, currentCode]) => {
    const body = { challengeId, code, ...(both ? { currentChallengeId, currentCode } : {}) }
    try {
      page.user = await page.client.call('POST', 'auth/email/change', body)
    } catch (error) {
      const isPresent = error instanceof ApiError && error.details[0]?.field === 'currentCode'
      throw codeRefusal(error, isPresent ? present : address)
    }
    again(t`Your address is changed.`)
  })
}

/**
 * Asks for codes in the place of what was there.
 * @param {import('./part.js').Part} self
 * @param {HTMLElement} content
 * @param {{ words: string, codes: ReturnType<typeof codeField>[], label: string }} options
 * @param {(digits: string[]) => Promise<void>} onCodes
 */
function codesForm(self, content, { words, codes, label }, onCodes) {
  const submit = button({ label, kind: 'primary', submit: true })
  const fields = codes.map(({ element }) => element)
  const form = make(
    'form',
    { class: 'stack' },
    make('p', { class: 'quiet-text', dir: 'auto' }, words),
    ...fields,
    submit,
  )
  onSubmit(form, () => {
    const digits = codes.map(({ input }) => digitsOf(input.value))
    const wrong = codes.find((_, at) => !/^\d{6}$/.test(digits[at] ?? ''))
    if (wrong !== undefined) return wrong.refuse(WRONG_FORM)
    self.run(submit, t`Checking…`, () => onCodes(digits))
  })
  content.replaceWith(form)
  codes[0]?.input.focus()
}

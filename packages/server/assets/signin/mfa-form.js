import { make } from './dom.js'
import { t } from './texts.js'
import { button, field, notice, onSubmit, runner } from './ui.js'

const CODE = {
  label: t`6-digit code`,
  attributes: { name: 'code', autocomplete: 'one-time-code', inputmode: 'numeric', maxlength: 12, class: 'input code' },
}
const RECOVERY = {
  label: t`Recovery code`,
  hint: t`One of the codes that you saved. Each works once.`,
  attributes: {
    name: 'recoveryCode',
    autocomplete: 'off',
    autocapitalize: 'none',
    spellcheck: 'false',
    maxlength: 64,
    class: 'input code',
  },
}

/**
 * The field for a code out of an authenticator app or an email.
 * @param {string} [label]
 */
export const codeField = (label = CODE.label) => field({ ...CODE, label })

/**
 * A code as authenticator apps show it, without the space in the middle that they show too.
 * @param {string} text
 */
export const digitsOf = (text) => text.replace(/[\s-]/g, '')

/**
 * Asks for a second factor and verifies it for the client's session.
 * @param {import('./client.js').Client} client
 * @param {() => Promise<void>} onVerified the client holds the stronger token by then
 */
export function mfaForm(client, onVerified) {
  const place = notice()
  const code = codeField()
  const recovery = field(RECOVERY)
  const submit = button({ label: t`Verify`, kind: 'primary', submit: true })
  const swap = button({ label: t`Use a recovery code instead`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, code.element, recovery.element, submit, place.element, swap)
  const run = runner(form, place, { code, recoveryCode: recovery })
  let byRecovery = false
  const arrange = () => {
    code.element.hidden = byRecovery
    recovery.element.hidden = !byRecovery
    const label = swap.querySelector('.label')
    if (label !== null)
      label.textContent = byRecovery ? t`Use your authenticator app instead` : t`Use a recovery code instead`
  }
  arrange()
  swap.addEventListener('click', () => {
    byRecovery = !byRecovery
    arrange()
    place.clear()
    const shown = byRecovery ? recovery.input : code.input
    shown.focus()
  })
  onSubmit(form, () => {
    const shown = byRecovery ? recovery : code
    const text = digitsOf(shown.input.value)
    if (!byRecovery && !/^\d{6}$/.test(text))
      return shown.refuse(t`Enter the 6 digits that your authenticator app shows.`)
    if (byRecovery && text === '') return shown.refuse(t`Enter one of your recovery codes.`)
    run(submit, t`Checking…`, async () => {
      const proof = byRecovery ? { recoveryCode: recovery.input.value.trim() } : { code: text }
      try {
        const { challengeId } = await client.call('POST', 'mfa/challenge')
        const verified = await client.call('POST', 'mfa/verify', { challengeId, ...proof })
        client.raise(verified.accessToken)
      } catch (error) {
        shown.input.select()
        throw error
      }
      await onVerified()
    })
  })
  return { element: form, input: code.input }
}

import { make } from './dom.js'
import { codeRefusal } from './email.js'
import { codeField, digitsOf } from './mfa-form.js'
import { part } from './part.js'
import { withStepUp } from './step-up.js'
import { button, field, onSubmit } from './ui.js'

/**
 * Whether the user can sign in by email, and the way to it: a code confirms the address.
 * @param {import('./page.js').Page} page
 */
export function emailPart(page) {
  return part({
    title: 'Sign-in by email',
    lead: 'Get a code by email when you have no passkey at hand.',
    load: async (self) => {
      const identities = await page.client.list('auth/identities')
      const { email } = page.user
      const isOn = page.user.emailVerified && identities.some(({ provider }) => provider === 'email')
      if (isOn) return [make('p', { class: 'quiet-text', dir: 'auto' }, `Codes are sent to ${email}.`)]
      return [email === null ? addressForm(page, self) : confirmation(page, self, email)]
    },
  }).element
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {string} email
 */
function confirmation(page, self, email) {
  const send = button({ label: 'Confirm your address', kind: 'secondary', iconName: 'mail' })
  const content = make('div', { class: 'stack' }, make('p', { class: 'quiet-text', dir: 'auto' }, email), send)
  send.addEventListener('click', () => self.run(send, 'Sending…', () => ask(page, self, content, email)))
  return content
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 */
function addressForm(page, self) {
  const address = field({
    label: 'Email',
    attributes: { name: 'email', type: 'email', autocomplete: 'email', inputmode: 'email', maxlength: 320 },
  })
  const send = button({ label: 'Send code', kind: 'secondary', iconName: 'mail', submit: true })
  const form = make('form', { class: 'stack' }, address.element, send)
  onSubmit(form, () => {
    const email = address.input.value.trim()
    if (email === '') return address.refuse('Enter your email address.')
    self.run(send, 'Sending…', () => ask(page, self, form, email))
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
async function ask(page, self, content, email) {
  const body = { email, purpose: 'link' }
  const { challengeId } = await withStepUp(page, () => page.client.call('POST', 'auth/email/start', body))
  const code = codeField()
  const confirm = button({ label: 'Confirm', kind: 'primary', submit: true })
  const form = make(
    'form',
    { class: 'stack' },
    make('p', { class: 'quiet-text', dir: 'auto' }, `Enter the code that we sent to ${email}.`),
    code.element,
    confirm,
  )
  onSubmit(form, () => {
    const digits = digitsOf(code.input.value)
    if (!/^\d{6}$/.test(digits)) return code.refuse('Enter the 6 digits from the email.')
    self.run(confirm, 'Checking…', async () => {
      try {
        page.user = await page.client.call('POST', 'auth/email/link', { challengeId, code: digits })
      } catch (error) {
        throw codeRefusal(error)
      }
      await self.reload('Your address is confirmed.')
    })
  })
  content.replaceWith(form)
  code.input.focus()
}

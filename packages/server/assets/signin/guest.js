import { make, newId } from './dom.js'
import { addPasskey } from './passkey-list.js'
import { passkeysWork } from './passkeys.js'
import { button, field, notice, onSubmit, runner, timeWords } from './ui.js'

/**
 * A guest's offer to keep what they have, under an email address.
 * @param {import('./page.js').Page} page
 * @param {(said: string) => void} onDone shows the account
 */
export function saveAccountPart(page, onDone) {
  const titleId = newId('part')
  const place = notice()
  const email = field({
    label: 'Email',
    attributes: { name: 'email', type: 'email', autocomplete: 'email', inputmode: 'email', maxlength: 320 },
  })
  const name = field({
    label: 'Name',
    optional: true,
    attributes: { name: 'name', autocomplete: 'name', maxlength: 200 },
  })
  const submit = button({ label: 'Save your account', kind: 'primary', submit: true })
  const form = make('form', { class: 'stack' }, email.element, name.element, submit, place.element)
  const run = runner(form, place, { email, name })
  onSubmit(form, () => {
    const address = email.input.value.trim()
    if (address === '') return email.refuse('Enter your email address.')
    run(submit, 'Saving…', async () => {
      const typedName = name.input.value.trim()
      const body = typedName === '' ? { email: address } : { email: address, name: typedName }
      const saved = await page.client.call('POST', `guests/${page.guest.id}/convert`, body)
      page.client.adopt(saved)
      page.user = saved.user
      page.guest = null
      if (passkeysWork()) offerPasskey(page, onDone)
      else onDone('Your account is saved.')
    })
  })
  const until = page.guest.expiresAt ? ` Otherwise your guest session ends on ${timeWords(page.guest.expiresAt)}.` : ''
  return make(
    'section',
    { class: 'part', 'aria-labelledby': titleId },
    make('h2', { id: titleId }, 'Save your account'),
    make('p', { class: 'lead' }, `Keep everything you have here under your email address.${until}`),
    form,
  )
}

/**
 * An account that was just saved has no way back in yet.
 * @param {import('./page.js').Page} page
 * @param {(said: string) => void} onDone
 */
function offerPasskey(page, onDone) {
  const place = notice()
  const add = button({ label: 'Create a passkey', kind: 'primary', iconName: 'passkey' })
  const later = button({ label: 'Not now', kind: 'quiet' })
  const content = make('div', { class: 'stack' }, add, later, place.element)
  const run = runner(content, place)
  add.addEventListener('click', () =>
    run(add, 'Waiting for your device…', async () => {
      await addPasskey(page)
      onDone('Your account is saved, and your passkey is ready.')
    }),
  )
  later.addEventListener('click', () => onDone('Your account is saved.'))
  page.show([
    make('h1', {}, 'Your account is saved'),
    make('p', { class: 'lead' }, 'Create a passkey to sign in with your fingerprint, face or screen lock.'),
    content,
  ])
}

import { make, newId } from './dom.js'
import { addPasskey } from './passkey-list.js'
import { passkeysWork } from './passkeys.js'
import { t } from './texts.js'
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
    label: t`Email`,
    attributes: { name: 'email', type: 'email', autocomplete: 'email', inputmode: 'email', maxlength: 320 },
  })
  const name = field({
    label: t`Name`,
    optional: true,
    attributes: { name: 'name', autocomplete: 'name', maxlength: 200 },
  })
  const submit = button({ label: t`Save your account`, kind: 'primary', submit: true })
  const form = make('form', { class: 'stack' }, email.element, name.element, submit, place.element)
  const run = runner(form, place, { email, name })
  onSubmit(form, () => {
    const address = email.input.value.trim()
    if (address === '') return email.refuse(t`Enter your email address.`)
    run(submit, t`Saving…`, async () => {
      const typedName = name.input.value.trim()
      const body = typedName === '' ? { email: address } : { email: address, name: typedName }
      const saved = await page.client.call('POST', `guests/${page.guest.id}/convert`, body)
      page.client.adopt(saved)
      page.user = saved.user
      page.guest = null
      if (passkeysWork()) offerPasskey(page, onDone)
      else onDone(t`Your account is saved.`)
    })
  })
  const keep = t`Keep everything you have here under your email address.`
  const until = page.guest.expiresAt && t`Otherwise your guest session ends on ${timeWords(page.guest.expiresAt)}.`
  return make(
    'section',
    { class: 'part', 'aria-labelledby': titleId },
    make('h2', { id: titleId }, t`Save your account`),
    make('p', { class: 'lead' }, until ? `${keep} ${until}` : keep),
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
  const add = button({ label: t`Create a passkey`, kind: 'primary', iconName: 'passkey' })
  const later = button({ label: t`Not now`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, add, later, place.element)
  const run = runner(content, place)
  add.addEventListener('click', () =>
    run(add, t`Waiting for your device…`, async () => {
      await addPasskey(page)
      onDone(t`Your account is saved, and your passkey is ready.`)
    }),
  )
  later.addEventListener('click', () => onDone(t`Your account is saved.`))
  page.show([
    make('h1', {}, t`Your account is saved`),
    make('p', { class: 'lead' }, t`Create a passkey to sign in with your fingerprint, face or screen lock.`),
    content,
  ])
}

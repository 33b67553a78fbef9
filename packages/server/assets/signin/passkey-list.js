import { make } from './dom.js'
import { icon } from './icons.js'
import { part } from './part.js'
import { passkeysWork, register } from './passkeys.js'
import { endUnused } from './session.js'
import { withStepUp } from './step-up.js'
import { t } from './texts.js'
import { button, dayWords, field, notice, onSubmit, openDialog, runner } from './ui.js'

const UNNAMED = t`Passkey`

/**
 * The user's passkeys: add, rename, remove.
 * @param {import('./page.js').Page} page
 */
export function passkeysPart(page) {
  const add = button({ label: t`Add a passkey`, kind: 'secondary', iconName: 'passkey' })
  const made = part({
    title: t`Passkeys`,
    lead: t`Sign in with your fingerprint, face or screen lock. A passkey on a second device keeps you from being locked out.`,
    async load(self) {
      const passkeys = await page.client.list('auth/passkeys')
      const rows = passkeys.map((passkey) => row(page, self, passkey))
      const list =
        rows.length === 0
          ? make('p', { class: 'quiet-text' }, t`You have no passkey yet.`)
          : make('ul', { class: 'rows', role: 'list' }, ...rows)
      return passkeysWork()
        ? [list, add]
        : [list, make('p', { class: 'quiet-text' }, t`This browser cannot create passkeys.`)]
    },
  })
  add.addEventListener('click', () =>
    made.run(add, t`Waiting for your device…`, async () => {
      await addPasskey(page)
      await made.reload(t`Passkey added.`)
    }),
  )
  return made.element
}

/**
 * Adds a passkey to the account that is signed in. The answer is a sign-in with it; the page stays in the session that it
 * has, in which a second factor may just have been verified.
 * @param {import('./page.js').Page} page
 */
export async function addPasskey(page) {
  await endUnused(page, await withStepUp(page, () => register(page.client, {})))
}

/** @param {any} passkey */
function details(passkey) {
  const added = t`Added ${dayWords(passkey.createdAt)}`
  return passkey.lastUsedAt === null ? added : `${added} · ${t`Last used ${dayWords(passkey.lastUsedAt)}`}`
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {any} passkey
 */
function row(page, self, passkey) {
  const name = passkey.name ?? UNNAMED
  const rename = button({ label: t`Rename`, kind: 'quiet', about: name })
  const remove = button({ label: t`Remove`, kind: 'quiet', about: name })
  const shown = make(
    'div',
    { class: 'row' },
    icon('passkey'),
    make(
      'div',
      { class: 'row-text' },
      make('p', { class: 'row-title', dir: 'auto' }, name),
      make('p', { class: 'row-more' }, details(passkey)),
    ),
    make('div', { class: 'row-actions' }, rename, remove),
  )
  const entry = make('li', {}, shown)
  rename.addEventListener('click', () => {
    const form = renameForm(page, self, passkey, () => {
      entry.replaceChildren(shown)
      rename.focus()
    })
    entry.replaceChildren(form.element)
    form.input.select()
  })
  remove.addEventListener('click', () => confirmRemoval(page, self, passkey))
  return entry
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {any} passkey
 * @param {() => void} onCancel
 */
function renameForm(page, self, passkey, onCancel) {
  const name = field({
    label: t`Name of the passkey`,
    attributes: { name: 'name', maxlength: 100, autocomplete: 'off', value: passkey.name ?? '' },
  })
  const place = notice()
  const save = button({ label: t`Save`, kind: 'primary', submit: true })
  const cancel = button({ label: t`Cancel`, kind: 'quiet' })
  const actions = make('div', { class: 'actions' }, save, cancel)
  const element = make('form', { class: 'stack inset' }, name.element, actions, place.element)
  const run = runner(element, place, { name })
  cancel.addEventListener('click', onCancel)
  onSubmit(element, () => {
    const text = name.input.value.trim()
    if (text === '') return name.refuse(t`Enter a name for the passkey.`)
    run(save, t`Saving…`, async () => {
      await page.client.call('PATCH', `auth/passkeys/${passkey.id}`, { name: text })
      await self.reload(t`Passkey renamed.`)
    })
  })
  return { element, input: name.input }
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {any} passkey
 */
function confirmRemoval(page, self, passkey) {
  const name = passkey.name ?? UNNAMED
  openDialog({
    title: t`Remove this passkey?`,
    lead: t`“${name}” will no longer sign you in here. Remove it from your device’s password manager too.`,
    body: (close) => {
      const place = notice()
      const remove = button({ label: t`Remove passkey`, kind: 'danger' })
      const cancel = button({ label: t`Keep it`, kind: 'quiet' })
      const content = make('div', { class: 'stack' }, remove, cancel, place.element)
      const run = runner(content, place)
      cancel.addEventListener('click', close)
      remove.addEventListener('click', () =>
        run(remove, t`Removing…`, async () => {
          await withStepUp(page, () => page.client.call('DELETE', `auth/passkeys/${passkey.id}`))
          close()
          await self.run(null, '', () => self.reload(t`Passkey removed.`))
        }),
      )
      return [content]
    },
  })
}

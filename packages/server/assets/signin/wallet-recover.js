import { make } from './dom.js'
import { withStepUp } from './step-up.js'
import { t } from './texts.js'
import { button, field, notice, onSubmit, runner } from './ui.js'
import { showWallet } from './wallet.js'
import { askToWriteDown } from './wallet-create.js'
import { askToSeal, keepShare, keyApi, loadKeys } from './wallet-keys.js'
import { Refused } from './words.js'

/** @typedef {import('./page.js').Page} Page */

/**
 * Leads somebody whose passkey has no share, such as on a new device, to their recovery share.
 * @param {Page} page
 * @param {any} wallet
 */
export function recoveryButton(page, wallet) {
  const lost = button({ label: t`I lost the device that kept my share`, kind: 'quiet' })
  lost.addEventListener('click', () => showRecovery(page, wallet))
  return lost
}

/**
 * @param {Page} page
 * @param {any} wallet
 */
function showRecovery(page, wallet) {
  const place = notice()
  const sheet = field({
    label: t`Recovery share`,
    hint: t`The text that you kept when your wallet was made.`,
    attributes: { name: 'sheet', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', maxlength: 4_000 },
  })
  const submit = button({ label: t`Get your wallet back`, kind: 'primary', iconName: 'passkey', submit: true })
  const back = button({ label: t`Back`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, sheet.element, submit, back, place.element)
  const run = runner(form, place, { sheet })
  onSubmit(form, () => run(submit, t`Waiting for your passkey…`, () => recover(page, wallet, sheet.input.value.trim())))
  back.addEventListener('click', () => showWallet(page))
  page.show([
    make('h1', {}, t`Get your wallet back`),
    make(
      'p',
      { class: 'lead' },
      t`With your recovery share, new shares are made of the same key. What the lost device kept is then worth nothing.`,
    ),
    form,
  ])
}

/**
 * @param {Page} page
 * @param {any} wallet
 * @param {string} text
 */
async function recover(page, wallet, text) {
  const { readHeldShare, reshare, writeHeldShare } = await loadKeys()
  let held
  try {
    held = readHeldShare(text)
  } catch {
    throw new Refused(t`This is not a recovery share. Enter it exactly as it was shown.`, 'sheet')
  }
  if (held.walletId !== wallet.id) throw new Refused(t`This is the recovery share of another wallet.`, 'sheet')
  const api = keyApi(page.client)
  const seal = await askToSeal()
  const { device } = await withStepUp(page, () =>
    reshare(api, [held], (/** @type {any} */ { recovery }) => askToWriteDown(writeHeldShare(recovery))),
  )
  await keepShare(api, wallet, device, seal)
  await showWallet(page, t`You have your wallet back. Destroy the old recovery share.`)
}

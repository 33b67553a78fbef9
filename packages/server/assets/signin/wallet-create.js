import { make } from './dom.js'
import { withStepUp } from './step-up.js'
import { t } from './texts.js'
import { button, copyButton, notice, openDialog, runner } from './ui.js'
import { showWallet } from './wallet.js'
import { askToSeal, keepShare, keyApi, loadKeys } from './wallet-keys.js'
import { Declined } from './words.js'

/** @typedef {import('./page.js').Page} Page */

/**
 * Somebody has no wallet yet.
 * @param {Page} page
 */
export function showCreation(page) {
  const place = notice()
  const create = button({ label: t`Create your wallet`, kind: 'primary', iconName: 'passkey' })
  const content = make('div', { class: 'stack' }, create, place.element)
  const run = runner(content, place)
  create.addEventListener('click', () => run(create, t`Creating the key…`, () => createWallet(page)))
  page.show([
    make('h1', {}, t`Create your wallet`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`Its key is made in three shares: one for ${page.config.appName}’s wallet service, one that your passkey keeps, and one for you to write down. Two of them sign together, so nobody can pay without you.`,
    ),
    content,
  ])
}

/** @param {Page} page */
async function createWallet(page) {
  const { createSharedWallet, writeHeldShare } = await loadKeys()
  const api = keyApi(page.client)
  const seal = await askToSeal()
  const { wallet, device } = await withStepUp(page, () =>
    createSharedWallet(api, {
      // The wallet exists only once this share is in a second place.
      keep: (/** @type {any} */ { recovery }) => askToWriteDown(writeHeldShare(recovery)),
    }),
  )
  await keepShare(api, wallet, device, seal)
  await showWallet(page)
}

/**
 * Shows the recovery share until the person says that they have it.
 * @param {string} sheet
 * @throws Declined if they leave: then there is no wallet
 */
export async function askToWriteDown(sheet) {
  let kept = false
  const { closed } = openDialog({
    title: t`Keep your recovery share`,
    lead: t`If you lose this device, you need this text to get your wallet back. Keep it where nobody else finds it: on paper, or in a password manager. It is not shown again.`,
    body: (close) => {
      const text = make('pre', { class: 'sheet', tabindex: '0' }, sheet)
      const done = button({ label: t`I have kept it`, kind: 'primary' })
      const cancel = button({ label: t`Cancel`, kind: 'quiet' })
      done.addEventListener('click', () => {
        kept = true
        close()
      })
      cancel.addEventListener('click', close)
      return [text, copyButton(t`Copy`, sheet, text), make('div', { class: 'stack' }, done, cancel)]
    },
  })
  await closed
  if (!kept) throw new Declined()
}

import { make } from './dom.js'
import { codeField, digitsOf } from './mfa-form.js'
import { t } from './texts.js'
import { button, copyButton, notice, onSubmit, openDialog, runner } from './ui.js'

/** @typedef {{ secret: string, otpauthUrl: string, qrSvg: string }} Setup */

/**
 * Takes somebody through turning on two-step verification: the secret into an app, the first code out of it as the proof
 * that it is there, the recovery codes.
 * @param {import('./page.js').Page} page
 * @param {Setup} setup
 * @returns {Promise<boolean>} whether it is on now
 */
export async function enrol(page, setup) {
  /** @type {string[] | null} */
  let recoveryCodes = null
  const dialog = openDialog({
    title: t`Set up two-step verification`,
    lead: t`Scan this with your authenticator app, or type the key into it. Then enter the code that it shows.`,
    body: (close) => [
      secretBox(setup),
      firstCodeForm(page, close, (codes) => {
        recoveryCodes = codes
        close()
      }),
    ],
  })
  await dialog.closed
  if (recoveryCodes === null) return false
  page.user.mfaEnabled = true
  await showRecoveryCodes(recoveryCodes)
  page.enrolled()
  return true
}

/**
 * @param {import('./page.js').Page} page
 * @param {() => void} onCancel
 * @param {(recoveryCodes: string[]) => void} onEnabled
 */
function firstCodeForm(page, onCancel, onEnabled) {
  const place = notice()
  const code = codeField()
  const submit = button({ label: t`Turn on`, kind: 'primary', submit: true })
  const cancel = button({ label: t`Cancel`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, code.element, submit, cancel, place.element)
  const run = runner(form, place, { code })
  cancel.addEventListener('click', onCancel)
  onSubmit(form, () => {
    const text = digitsOf(code.input.value)
    if (!/^\d{6}$/.test(text)) return code.refuse(t`Enter the 6 digits that your authenticator app shows.`)
    run(submit, t`Checking…`, async () => {
      onEnabled((await page.client.call('POST', 'mfa/verify-setup', { code: text })).recoveryCodes)
    })
  })
  return form
}

/** @param {Setup} setup */
function secretBox({ secret, otpauthUrl, qrSvg }) {
  // As an image, the drawing can neither run anything nor load anything.
  const src = `data:image/svg+xml;base64,${btoa(qrSvg)}`
  const shown = make('code', { class: 'secret' }, secret.match(/.{1,4}/g)?.join(' ') ?? secret)
  return make(
    'div',
    { class: 'secret-box' },
    make('img', { class: 'qr', src, alt: t`QR code for your authenticator app`, width: 168, height: 168 }),
    make('p', { class: 'quiet-text' }, t`Setup key`),
    shown,
    make(
      'div',
      { class: 'secret-actions' },
      copyButton(t`Copy key`, secret, shown),
      make('a', { class: 'button quiet on-this-device', href: otpauthUrl }, t`Open in an app on this device`),
    ),
  )
}

/** @param {string[]} codes shown this once */
async function showRecoveryCodes(codes) {
  const dialog = openDialog({
    title: t`Save your recovery codes`,
    lead: t`Each code works once if you lose your authenticator app. The codes are shown only now. Keep them somewhere safe.`,
    body: (close) => {
      const list = make('ol', { class: 'codes' }, ...codes.map((code) => make('li', {}, make('code', {}, code))))
      const done = button({ label: t`I have saved them`, kind: 'primary' })
      done.addEventListener('click', close)
      return [list, make('div', { class: 'stack' }, copyButton(t`Copy codes`, codes.join('\n'), list), done)]
    },
  })
  // Escape would throw them away for good.
  dialog.element.addEventListener('cancel', (event) => event.preventDefault())
  await dialog.closed
}

import { make } from './dom.js'
import { enrol } from './enrolment.js'
import { icon } from './icons.js'
import { part } from './part.js'
import { withStepUp } from './step-up.js'
import { t } from './texts.js'
import { button, dayWords, notice, openDialog, runner } from './ui.js'

/**
 * Two-step verification: turn on, see, turn off.
 * @param {import('./page.js').Page} page
 */
export function twoStepPart(page) {
  const made = part({
    title: t`Two-step verification`,
    lead: t`Sensitive actions ask for a code from an authenticator app.`,
    async load(self) {
      const status = await page.client.call('GET', 'mfa/status')
      return status.enabled ? [enabledRow(page, self, status)] : [setUpButton(page, self)]
    },
  })
  page.enrolled = () => {
    made.reload().catch(() => undefined)
  }
  return made.element
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {any} status
 */
function enabledRow(page, self, status) {
  const off = button({ label: t`Turn off`, kind: 'quiet', about: t`two-step verification` })
  off.addEventListener('click', () => confirmTurningOff(page, self))
  const left = status.recoveryCodesRemaining
  return make(
    'div',
    { class: 'row' },
    icon('shield'),
    make(
      'div',
      { class: 'row-text' },
      make('p', { class: 'row-title' }, t`On`),
      make('p', { class: 'row-more' }, t`Since ${dayWords(status.enabledAt)} · Recovery codes left: ${left}`),
    ),
    make('div', { class: 'row-actions' }, off),
  )
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 */
function confirmTurningOff(page, self) {
  openDialog({
    title: t`Turn off two-step verification?`,
    lead: t`Your passkey alone will then be enough to sign in. Your recovery codes stop working.`,
    body: (close) => {
      const place = notice()
      const off = button({ label: t`Turn off`, kind: 'danger' })
      const cancel = button({ label: t`Keep it on`, kind: 'quiet' })
      const content = make('div', { class: 'stack' }, off, cancel, place.element)
      const run = runner(content, place)
      cancel.addEventListener('click', close)
      off.addEventListener('click', () =>
        run(off, t`Turning off…`, async () => {
          await withStepUp(page, () => page.client.call('DELETE', 'mfa'))
          page.user.mfaEnabled = false
          close()
          await self.run(null, '', () => self.reload(t`Two-step verification is off.`))
        }),
      )
      return [content]
    },
  })
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 */
function setUpButton(page, self) {
  const control = button({ label: t`Set up`, kind: 'secondary', iconName: 'shield', about: t`two-step verification` })
  control.addEventListener('click', () =>
    self.run(control, t`One moment…`, async () => {
      const setup = await withStepUp(page, () => page.client.call('POST', 'mfa/setup'))
      if (await enrol(page, setup)) self.place.say(t`Two-step verification is on.`)
    }),
  )
  return control
}

import { make } from './dom.js'
import { enrol } from './enrolment.js'
import { icon } from './icons.js'
import { part } from './part.js'
import { withStepUp } from './step-up.js'
import { button, dayWords, notice, openDialog, runner } from './ui.js'

/**
 * Two-step verification: turn on, see, turn off.
 * @param {import('./page.js').Page} page
 */
export function twoStepPart(page) {
  const made = part({
    title: 'Two-step verification',
    lead: 'Sensitive actions ask for a code from an authenticator app.',
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
  const off = button({ label: 'Turn off', kind: 'quiet', about: 'two-step verification' })
  off.addEventListener('click', () => confirmTurningOff(page, self))
  const left = status.recoveryCodesRemaining
  const codes = left === 1 ? '1 recovery code left' : `${left} recovery codes left`
  return make(
    'div',
    { class: 'row' },
    icon('shield'),
    make(
      'div',
      { class: 'row-text' },
      make('p', { class: 'row-title' }, 'On'),
      make('p', { class: 'row-more' }, `Since ${dayWords(status.enabledAt)} · ${codes}`),
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
    title: 'Turn off two-step verification?',
    lead: 'Your passkey alone will then be enough to sign in. Your recovery codes stop working.',
    body: (close) => {
      const place = notice()
      const off = button({ label: 'Turn off', kind: 'danger' })
      const cancel = button({ label: 'Keep it on', kind: 'quiet' })
      const content = make('div', { class: 'stack' }, off, cancel, place.element)
      const run = runner(content, place)
      cancel.addEventListener('click', close)
      off.addEventListener('click', () =>
        run(off, 'Turning off…', async () => {
          await withStepUp(page, () => page.client.call('DELETE', 'mfa'))
          page.user.mfaEnabled = false
          close()
          await self.run(null, '', () => self.reload('Two-step verification is off.'))
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
  const control = button({ label: 'Set up', kind: 'secondary', iconName: 'shield', about: 'two-step verification' })
  control.addEventListener('click', () =>
    self.run(control, 'One moment…', async () => {
      const setup = await withStepUp(page, () => page.client.call('POST', 'mfa/setup'))
      if (await enrol(page, setup)) self.place.say('Two-step verification is on.')
    }),
  )
  return control
}

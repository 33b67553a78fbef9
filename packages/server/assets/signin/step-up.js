import { ApiError } from './client.js'
import { make } from './dom.js'
import { enrol } from './enrolment.js'
import { icon } from './icons.js'
import { markLeaving, messengerHref } from './messenger.js'
import { mfaForm } from './mfa-form.js'
import { login, PasskeyFailed, passkeysWork } from './passkeys.js'
import { endUnused } from './session.js'
import { t } from './texts.js'
import { button, notice, openDialog, runner } from './ui.js'
import { Declined } from './words.js'

const LONG_AGO = t`You signed in a while ago. For your safety, confirm that it is you.`
const BY_PASSKEY = t`For your safety, this also needs your passkey.`

/** A new sign-in may be followed by setting up a second factor or a code; after that nothing more can be asked for. */
const STEPS_MAX = 3

/**
 * Makes a call, and where it needs more proof of who is there, asks for that and makes it again.
 * @template T
 * @param {import('./page.js').Page} page
 * @param {() => Promise<T>} call
 * @returns {Promise<T>}
 * @throws what the call throws; Declined, if the person does not want to
 */
export async function withStepUp(page, call) {
  for (let step = 1; ; step++) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 403 || step > STEPS_MAX) throw error
      if (error.code === 'mfa_required') await askForCode(page)
      else if (error.code === 'reauthentication_required') await askToSignIn(page, LONG_AGO)
      else if (error.code === 'stronger_sign_in_required') await askToSignIn(page, BY_PASSKEY)
      else if (error.code === 'mfa_enrollment_required') await askToEnrol(page)
      else throw error
    }
  }
}

/**
 * Shows a dialog that is either finished or left.
 * @param {(done: () => void) => ReturnType<typeof openDialog>} open
 */
async function settled(open) {
  let finished = false
  const dialog = open(() => {
    finished = true
    dialog.close()
  })
  await dialog.closed
  if (!finished) throw new Declined()
}

/** @param {import('./page.js').Page} page */
function askForCode(page) {
  return settled((done) =>
    openDialog({
      title: t`Confirm it’s you`,
      lead: t`Enter the code that your authenticator app shows now.`,
      body: (close) => {
        const cancel = button({ label: t`Cancel`, kind: 'quiet' })
        cancel.addEventListener('click', close)
        return [mfaForm(page.client, async () => done()).element, cancel]
      },
    }),
  )
}

/**
 * Signs the same person in again: the new session takes the old one's place.
 * @param {import('./page.js').Page} page
 * @param {string} lead why
 */
function askToSignIn(page, lead) {
  return settled((done) =>
    openDialog({
      title: t`Sign in again`,
      lead,
      body: (close) => {
        const place = notice()
        const passkey = button({ label: t`Use your passkey`, kind: 'primary', iconName: 'passkey' })
        const cancel = button({ label: t`Cancel`, kind: 'quiet' })
        const content = make(
          'div',
          { class: 'stack' },
          passkeysWork() && passkey,
          messengerWay(page),
          cancel,
          place.element,
        )
        const run = runner(content, place)
        passkey.addEventListener('click', () =>
          run(passkey, t`Waiting for your passkey…`, async () => {
            await replaceSession(page)
            done()
          }),
        )
        cancel.addEventListener('click', close)
        return [content]
      },
    }),
  )
}

/**
 * The app asks for a second factor of everybody, and this is somebody who has none yet.
 * @param {import('./page.js').Page} page
 */
async function askToEnrol(page) {
  const setup = await withStepUp(page, () => page.client.call('POST', 'mfa/setup'))
  if (!(await enrol(page, setup))) throw new Declined()
}

/** @param {import('./page.js').Page} page */
function messengerWay(page) {
  const { messenger } = page.config
  if (messenger === null) return null
  const href = messengerHref(messenger.authUrl)
  const link = make(
    'a',
    { class: 'button secondary', href, rel: 'noreferrer' },
    icon('send'),
    make('span', { class: 'label' }, t`Use Telegram`),
  )
  link.addEventListener('click', markLeaving)
  return link
}

/** @param {import('./page.js').Page} page */
async function replaceSession(page) {
  const result = await login(page.client, page.user.email ?? '')
  if (result.user.id !== page.user.id) {
    await endUnused(page, result)
    throw new PasskeyFailed(t`That passkey belongs to another account.`)
  }
  const left = page.client.sessionId
  page.client.adopt(result)
  page.user = result.user
  // Best effort: it would end by itself, and the person has what they asked for.
  if (left !== null) await page.client.call('DELETE', `auth/sessions/${left}`).catch(() => undefined)
}

import { make } from './dom.js'
import { icon } from './icons.js'
import { part } from './part.js'
import { t } from './texts.js'
import { button, timeWords } from './ui.js'

const BROWSERS = [
  [/Edg\//, 'Edge'],
  [/OPR\//, 'Opera'],
  [/Firefox\/|FxiOS/, 'Firefox'],
  [/SamsungBrowser/, 'Samsung Internet'],
  [/Chrome\/|CriOS|Chromium/, 'Chrome'],
  [/Safari\//, 'Safari'],
]
const SYSTEMS = [
  [/iPhone/, 'iPhone'],
  [/iPad/, 'iPad'],
  [/Android/, 'Android'],
  [/CrOS/, 'ChromeOS'],
  [/Mac OS X/, 'Mac'],
  [/Windows/, 'Windows'],
  [/Linux/, 'Linux'],
]

/**
 * A user agent in a few words. A guess for people to recognise their devices by, nothing is decided on it.
 * @param {string | null} agent
 */
function deviceWords(agent) {
  const find = (/** @type {any[]} */ table) => table.find(([pattern]) => pattern.test(agent ?? ''))?.[1]
  const browser = find(BROWSERS)
  const system = find(SYSTEMS)
  if (browser === undefined) return system ?? t`Unknown device`
  return system === undefined ? browser : t`${browser} on ${system}`
}

/**
 * Where the user is signed in; others can be signed out.
 * @param {import('./page.js').Page} page
 */
export function sessionsPart(page) {
  const made = part({
    title: t`Where you are signed in`,
    lead: t`Sign out any device that you do not recognise.`,
    async load(self) {
      const sessions = (await page.client.list('auth/sessions')).filter((session) => session.status === 'active')
      const others = sessions.filter((session) => !session.current)
      const here = sessions.filter((session) => session.current)
      const list = make(
        'ul',
        { class: 'rows', role: 'list' },
        ...[...here, ...others].map((one) => row(page, self, one)),
      )
      return others.length < 2 ? [list] : [list, everywhereElse(page, self, others)]
    },
  })
  return made.element
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {any} session
 */
function row(page, self, session) {
  const device = deviceWords(session.userAgent)
  const since = timeWords(session.signedInAt)
  const end = button({ label: t`Sign out`, kind: 'quiet', about: t`${device}, signed in ${since}` })
  end.addEventListener('click', () =>
    self.run(end, t`Signing out…`, async () => {
      await page.client.call('DELETE', `auth/sessions/${session.id}`)
      await self.reload(t`Device signed out.`)
    }),
  )
  return make(
    'li',
    {},
    make(
      'div',
      { class: 'row' },
      icon(/iPhone|Android.*Mobile/.test(session.userAgent ?? '') ? 'phone' : 'device'),
      make(
        'div',
        { class: 'row-text' },
        make('p', { class: 'row-title', dir: 'auto' }, device),
        make('p', { class: 'row-more' }, t`Signed in ${since} · ${session.address}`),
      ),
      make('div', { class: 'row-actions' }, session.current ? make('span', { class: 'tag' }, t`This device`) : end),
    ),
  )
}

/**
 * @param {import('./page.js').Page} page
 * @param {import('./part.js').Part} self
 * @param {any[]} others
 */
function everywhereElse(page, self, others) {
  const control = button({ label: t`Sign out everywhere else`, kind: 'secondary' })
  control.addEventListener('click', () =>
    self.run(control, t`Signing out…`, async () => {
      for (const session of others) await page.client.call('DELETE', `auth/sessions/${session.id}`)
      await self.reload(t`Signed out everywhere else.`)
    }),
  )
  return control
}

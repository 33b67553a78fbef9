import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { inLanguage, LANGUAGES, type Language } from './language.ts'
import { ASSETS } from './page.ts'

let service: Service
let origin: string
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  // In development the page is shown under the name in the public URL.
  origin = service.url.replace('127.0.0.1', 'localhost')
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const translated = (Object.keys(LANGUAGES) as Language[]).filter((language) => language !== 'en')

const textsOf = (language: Language): Record<string, string> =>
  JSON.parse(readFileSync(join(ASSETS, 'languages', `${language}.json`), 'utf8'))

/** The end of the template that begins at `from`, behind its backtick, and its text with places for values. */
function template(source: string, from: number): string {
  let [text, places] = ['', 0]
  for (let at = from; source[at] !== '`'; at += 1) {
    if (source[at] === '\\') throw new Error(`a text with an escape: ${source.slice(from, at)}`)
    if (!source.startsWith('${', at)) {
      text += source[at]
      continue
    }
    let depth = 1
    for (at += 2; depth > 0; at += 1) depth += Number(source[at] === '{') - Number(source[at] === '}')
    at -= 1
    text += `{${places}}`
    places += 1
  }
  return text
}

/** All texts of the pages. */
function usedTexts(): string[] {
  const scripts = readdirSync(ASSETS).filter((name) => name.endsWith('.js') && name !== 'texts.js')
  const inScripts = scripts.flatMap((name) => {
    const source = readFileSync(join(ASSETS, name), 'utf8')
    return [...source.matchAll(/(?<![\w$])(?:t|inWords)`/g)].map((found) =>
      template(source, found.index + found[0].length),
    )
  })
  const inDocument = ['Sign in to {0}', 'One moment…', 'Language', 'Terms', 'Privacy', 'Support']
  const withoutScripts = 'Signing in needs JavaScript. Turn it on in your browser and load this page again.'
  return [...new Set([...inScripts, ...inDocument, withoutScripts])].sort()
}

const placesOf = (text: string) => [...text.matchAll(/\{\d\}/g)].map(([place]) => place).sort()

test.each(translated)('the texts in %s are those of the pages, each with the same values', (language) => {
  const texts = textsOf(language)
  expect(Object.keys(texts).toSorted()).toEqual(usedTexts())
  for (const [english, text] of Object.entries(texts)) {
    expect(text.trim(), english).not.toBe('')
    expect(placesOf(text), english).toEqual(placesOf(english))
    // Texts are never markup, and nothing in them turns the text around.
    expect(text, english).not.toMatch(/[<>&\p{Cc}\u202a-\u202e\u2066-\u2069]/u)
  }
})

const open = (query = '', headers: Record<string, string> = {}) =>
  call(origin, 'GET', `/signin?app=${tenant.appId}${query}`, { headers })

const rootOf = ({ text }: { text: string }) => /<html lang="([^"]*)" dir="([^"]*)"/.exec(text)?.slice(1)

test.each<[query: string, header: string | undefined, language: Language]>([
  ['', undefined, 'en'],
  ['', 'de', 'de'],
  ['', 'pt-BR,pt;q=0.9,en;q=0.8', 'pt'],
  ['', 'xx, fr;q=0.5, es;q=0.7', 'es'],
  ['', 'de;q=0, ja', 'ja'],
  ['', 'xx', 'en'],
  ['', `${'x,'.repeat(50_000)}`.slice(0, 8_000), 'en'],
  ['&ui_locales=zh-Hans', 'de', 'zh'],
  ['&ui_locales=xx%20AR', 'de', 'ar'],
  ['&ui_locales=__proto__%20constructor', 'de', 'de'],
  ['&ui_locales=%22%3E%3Cscript%3E', undefined, 'en'],
  ['&ui_locales=../../package', undefined, 'en'],
])('a page with %j in a browser that prefers %j is in %s', async (query, header, language) => {
  const page = await open(query, header === undefined ? {} : { 'accept-language': header })
  expect(page.status).toBe(200)
  expect(rootOf(page)).toEqual([language, language === 'ar' ? 'rtl' : 'ltr'])
  const { name } = (await tenant.get(`/apps/${tenant.appId}`)).body.data
  expect(page.text).toContain(`<title>${inLanguage(language, 'Sign in to {0}').replace('{0}', name)}</title>`)
  expect(page.text).toContain(`<option value="${language}" lang="${language}" dir="auto" selected>`)
  expect(page.text.includes('/signin/languages/')).toBe(language !== 'en')
  expect(page.text).not.toContain('"><script>')
})

test('without a wish, the language of the app’s emails is that of its pages, and its emails are in the language of the page', async () => {
  const configOf = ({ text }: { text: string }) =>
    JSON.parse(/<script type="application\/json" id="config">([^<]*)<\/script>/.exec(text)?.[1] ?? '')
  expect((await tenant.patch(`/apps/${tenant.appId}`, { email: { language: 'de' } })).status).toBe(200)
  expect(rootOf(await open())?.[0]).toBe('de')
  expect(configOf(await open()).emailLanguage).toBe('de')
  expect(configOf(await open('', { 'accept-language': 'en' })).emailLanguage).toBe('en')
  expect((await tenant.patch(`/apps/${tenant.appId}`, { email: { language: 'en' } })).status).toBe(200)
})

test('texts are loaded as a module of the page, and there are none of other languages', async () => {
  const module = await fetch(`${origin}/signin/languages/ar.js`, { headers: { 'accept-encoding': 'br' } })
  expect(module.headers.get('content-type')).toMatch(/^text\/javascript/)
  expect(module.headers.get('content-encoding')).toBe('br')
  expect(Number(module.headers.get('content-length'))).toBeLessThan(16_000)
  expect(await module.text()).toMatch(/^export const texts = \{/)
  for (const name of ['en.js', 'xx.js', 'de.json', '..%2fpage.js'])
    expect((await call(origin, 'GET', `/signin/languages/${name}`)).status, name).toBe(404)
})

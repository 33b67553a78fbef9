import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createCompressed } from '../../platform/http/pages/compressed.ts'
import { contentTypeOf } from '../../platform/http/pages/pages.ts'
import type { PlainRoute } from '../../platform/http/route.ts'

/** The languages of the hosted pages, each in its own words. */
export const LANGUAGES = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  fr: 'Français',
  pt: 'Português',
  ar: 'العربية',
  ja: '日本語',
  zh: '中文',
} as const
export type Language = keyof typeof LANGUAGES

const FOLDER = fileURLToPath(new URL('../../../assets/signin/languages/', import.meta.url))

/** Texts by the English ones. `{0}` is the first value in a text. */
type Texts = Readonly<Record<string, string>>

const read = (language: Language): Texts => JSON.parse(readFileSync(join(FOLDER, `${language}.json`), 'utf8'))

const TEXTS: ReadonlyMap<Language, Texts> = new Map(
  (Object.keys(LANGUAGES) as Language[]).map((language) => [language, language === 'en' ? {} : read(language)]),
)

/** A text of the pages in a language. */
export const inLanguage = (language: Language, english: string): string => TEXTS.get(language)?.[english] ?? english

/** Which way a language runs. */
export const directionOf = (language: Language): 'ltr' | 'rtl' => (language === 'ar' ? 'rtl' : 'ltr')

/** A language of ours that a language tag (RFC 5646) is of, such as `pt-BR`. */
function supported(tag: string): Language | undefined {
  const [primary = ''] = tag.trim().toLowerCase().split('-')
  return Object.hasOwn(LANGUAGES, primary) ? (primary as Language) : undefined
}

const HEADER_CHARS_MAX = 1_000

/** The tags of an `Accept-Language` header, the preferred ones first (RFC 9110, section 12.5.4). */
const accepted = (header: string): string[] =>
  header
    .slice(0, HEADER_CHARS_MAX)
    .split(',')
    .map((range) => {
      const [tag = '', ...parameters] = range.split(';')
      const quality = parameters.map((each) => /^\s*q=([01](?:\.\d{0,3})?)\s*$/.exec(each)?.[1]).find(Boolean)
      return { tag, quality: Number(quality ?? 1) }
    })
    .filter(({ quality }) => quality > 0)
    .sort((a, b) => b.quality - a.quality)
    .map(({ tag }) => tag)

/**
 * The language of a page: what its address asks for (`ui_locales` of OpenID Connect Core, section 3.1.2.1), else what the browser
 * prefers, else the app's.
 */
export function languageOf(query: URLSearchParams, acceptLanguage: unknown, otherwise: Language): Language {
  const asked = (query.get('ui_locales') ?? '').slice(0, HEADER_CHARS_MAX).split(' ')
  const preferred = typeof acceptLanguage === 'string' ? accepted(acceptLanguage) : []
  return [...asked, ...preferred].map(supported).find((language) => language !== undefined) ?? otherwise
}

/** The texts of each language but English, as modules of the pages. */
export const languageScripts = (): PlainRoute[] =>
  [...TEXTS].flatMap(([language, texts]): PlainRoute[] => {
    if (language === 'en') return []
    const name = `languages/${language}.js`
    const answer = createCompressed(`export const texts = ${JSON.stringify(texts)}\n`, 'no-cache')
    return [
      {
        path: `/signin/${name}`,
        handler: async (_, { headers }) => ({ contentType: contentTypeOf(name), ...(await answer(headers)) }),
      },
    ]
  })

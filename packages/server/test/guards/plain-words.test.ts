import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))

/** Words and turns that a reader must read twice, each with what to write instead. */
const DIALECT: readonly [RegExp, string][] = [
  [
    /\b(?:who|which|when)ever(?: it)? (?:is|be|has|holds|asks|waits|comes|knows|made|makes|answers)\b/i,
    'anyone who, the one that',
  ],
  [/\bis another's\b|\bof another's\b/i, 'belongs to another tenant'],
  [/\bof (?:its|their|our|his) own\b/i, 'a separate one, your'],
  [/\banew\b/i, 'again, new'],
  [/\bagain and again\b/i, 'repeatedly, keeps retrying'],
  [/\bgoes? on (?:at|with|from|where|by|as)\b/i, 'continues'],
  [/\bby right of\b/i, 'with, by'],
  [/\bas of (?:now|yet)\b/i, 'now'],
  [/\bmend(?:s|ed|ing)?\b/i, 'fix'],
  [/\bhow-many-th\b/i, 'number'],
  [/\b(?:one|two|three) a (?:line|process|tenant|session|webhook|call|page|key|wallet)\b/i, 'per'],
  [/\bis past its end\b/i, 'has expired'],
  [/\btaken? away again\b/i, 'removed'],
  [/\bfrom which alone\b/i, 'the only … that'],
  [/\bis (?:through|at work)\b/i, 'is complete, is running'],
  [/\bnobody's alone\b/i, 'a public suffix'],
  [/\bit is told\b/i, 'reported'],
  [/\bsignature (?:does not )?fits?\b/i, 'is (not) valid'],
  [/\bcome by\b/i, 'get'],
]

interface Text {
  place: string
  text: string
}

/** A page without its code. */
const prose = (markdown: string): string => markdown.replace(/```[\s\S]*?```/g, '').replace(/`[^`\n]+`/g, '')

const pages = (): Text[] =>
  globSync(
    [
      '*.md',
      'docs/**/*.md',
      'packages/*/README.md',
      'packages/server/src/**/README.md',
      'packages/server/scripts/errors/**/*.md',
    ],
    {
      cwd: ROOT,
    },
  )
    .filter((path) => !path.includes('node_modules'))
    .map((path) => ({ place: path, text: prose(readFileSync(ROOT + path, 'utf8')) }))

/** Every description of the API, by its place. */
function descriptions(value: unknown, place: string): Text[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    (key === 'description' || key === 'summary') && typeof inner === 'string'
      ? [{ place: `${place}.${key}`, text: inner }]
      : descriptions(inner, `${place}.${key}`),
  )
}

const found = (texts: readonly Text[]): string[] =>
  texts.flatMap(({ place, text }) =>
    DIALECT.flatMap(([pattern, instead]) => {
      const hit = pattern.exec(text.replace(/\s+/g, ' '))
      return hit === null ? [] : [`${place}: "${hit[0]}" → ${instead}`]
    }),
  )

test('pages are written in words that everyone uses', () => {
  expect(found(pages())).toEqual([])
})

test('the API is described in words that everyone uses', () => {
  const api = JSON.parse(readFileSync(`${ROOT}packages/server/openapi.json`, 'utf8'))
  expect(found(descriptions(api, 'openapi'))).toEqual([])
})

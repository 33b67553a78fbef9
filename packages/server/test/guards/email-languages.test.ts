import { expect, test } from 'vitest'
import { textsOf } from '../../src/identity/emails/templates/defaults.ts'
import { RULES } from '../../src/identity/emails/templates/placeholders.ts'
import { EMAIL_LANGUAGES } from '../../src/tenancy/apps/schema.ts'

/** The placeholders of each text, by the path of its key. */
function placeholdersOf(texts: unknown, path = ''): [string, string][] {
  if (typeof texts === 'string')
    return [
      [
        path,
        [...texts.matchAll(/[{]+[^{}]*[}]*/g)]
          .map(([name]) => name)
          .toSorted()
          .join(' '),
      ],
    ]
  return Object.entries(texts ?? {}).flatMap(([key, value]) => placeholdersOf(value, `${path}.${key}`))
}

const english = Object.fromEntries(placeholdersOf(textsOf('en')))

test.each(EMAIL_LANGUAGES)(
  'the emails in %s have the keys of the English ones, with the same placeholders',
  (language) => {
    expect(Object.fromEntries(placeholdersOf(textsOf(language)))).toEqual(english)
    for (const [key, text] of Object.entries(textsOf(language).warning)) expect(text.trim(), key).not.toBe('')
  },
)

test('the English emails have placeholders of the closed list only', () => {
  const known = new Set(Object.values(RULES).flatMap(({ allowed }) => allowed.map((name) => `{{${name}}}`)))
  const used = Object.values(english).flatMap((names) => names.split(' ').filter((name) => name !== ''))
  expect(used.filter((name) => !known.has(name as `{{code}}`))).toEqual([])
  expect(used.length).toBeGreaterThan(20)
})

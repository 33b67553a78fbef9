import { expect, test } from 'vitest'
import { files, having, importing, type SourceFile } from '../../../../test/guards/source-graph.ts'
import { WAYS } from './ways.fixture.ts'

const textOf = (path: string) => (files.find((file) => file.path === path) as SourceFile).text

/** The files that take one of these from a slice. */
const taking = (slice: string, wanted: readonly string[]) =>
  importing(({ target, names }) => target.startsWith(slice) && names.some((name) => wanted.includes(name)))

test('rows of sessions are written in one place, which asks for a permit first', () => {
  expect(having(/insert\s+into\s+sessions\b/i)).toEqual(['identity/sessions/store.ts'])
  const callers = having(/store\.(insertSession|confirmSession)\(/).filter((path) => path.startsWith('identity/'))
  expect(callers).toEqual(['identity/sessions/start.ts'])
  for (const [begins, writes] of [
    ['export async function startSessionWith(', 'store.insertSession('],
    ['export async function confirmSession(', 'store.confirmSession('],
  ] as const) {
    const text = textOf('identity/sessions/start.ts')
    const body = text.slice(text.indexOf(begins)).split('\n}\n')[0] as string
    const [asks, write] = [body.indexOf('await requirePermit('), body.indexOf(writes)]
    expect(asks, begins).toBeGreaterThan(0)
    expect(write, begins).toBeGreaterThan(asks)
  }
})

test('every place that begins a session is tried with a server that refuses', () => {
  const places = new Set([
    ...taking('identity/sessions/', ['startSession', 'startSessionWith', 'confirmSession']),
    ...taking('identity/users/', ['signIn']),
  ])
  // Within the slice, `service.ts` passes them on.
  places.delete('identity/sessions/service.ts')
  const tried = new Set(Object.values(WAYS).flatMap((way) => way.places.map((place) => `identity/${place}`)))
  expect([...places].sort()).toEqual([...tried].sort())
})

test('each of them can be repeated with a permit, after what it has used up for good', () => {
  const ways = [...new Set(Object.values(WAYS).flatMap(({ places }) => places))].filter(
    (one) => one !== 'users/service.ts',
  )
  for (const way of ways) expect(textOf(`identity/${way}`), way).toContain('permitting(deps, ')
})

import { expect, test } from 'vitest'
import { describeConnection, readConnection } from './connection.ts'

const urlsOf = (url: string) => {
  const connection = readConnection(url)
  return connection.servers?.urls ?? [(connection as { connectionString: string }).connectionString]
}

test('a URL with one host stays as it is', () => {
  for (const url of [
    'postgres://halfkey:p%40ss@db:5433/halfkey',
    'postgresql://halfkey@db/halfkey?sslmode=verify-full',
    'postgres:///halfkey?host=/var/run/postgresql',
    'postgres://halfkey@[::1]:5432/halfkey',
  ])
    expect(readConnection(url)).toEqual({ connectionString: url })
})

test('several hosts are read as libpq reads them', () => {
  const expected = ['postgres://u:p@a:5432/db?sslmode=disable', 'postgres://u:p@b:5433/db?sslmode=disable']
  expect(urlsOf('postgres://u:p@a:5432,b:5433/db?target_session_attrs=read-write&sslmode=disable')).toEqual(expected)
  expect(urlsOf('postgres://u:p@/db?host=a,b&port=5432,5433&sslmode=disable')).toEqual(expected)
  expect(urlsOf('postgres://u@[::1],[::2]:5433/db')).toEqual(['postgres://u@[::1]/db', 'postgres://u@[::2]:5433/db'])
  expect(urlsOf('postgres://u@/db?host=/run/a,/run/b&port=5433')).toEqual([
    'postgres://u@%2Frun%2Fa:5433/db',
    'postgres://u@%2Frun%2Fb:5433/db',
  ])
})

test('one host of which a primary is asked is looked at too', () => {
  expect(readConnection('postgres://u@a/db?target_session_attrs=primary').servers?.urls).toEqual(['postgres://u@a/db'])
  expect(readConnection('postgres://u@a/db?target_session_attrs=any').servers).toBeUndefined()
})

test('options of the URL are kept for every server', () => {
  const connection = readConnection('postgres://u@a,b/db?options=-c%20search_path%3Dhalfkey')
  expect([connection.options, connection.servers?.urls]).toEqual([
    '-c search_path=halfkey',
    ['postgres://u@a/db', 'postgres://u@b/db'],
  ])
})

test('a URL that cannot be meant is refused', () => {
  const refused: [url: string, reason: RegExp][] = [
    ['postgres://u@a,/db', /no empty host/],
    ['postgres://u@/db?host=a,b&port=1,2,3', /as many ports as hosts/],
    ['postgres://u@a,b/db?target_session_attrs=standby', /target_session_attrs=read-write/],
    [`postgres://u@${Array.from({ length: 11 }, (_, n) => `h${n}`)}/db`, /at most 10 hosts/],
    ['postgres://u:p#w@a/db', /be a URL/],
  ]
  for (const [url, reason] of refused) expect(() => readConnection(url), url).toThrow(reason)
})

test('a connection is described by its hosts and database, without user and password', () => {
  expect(describeConnection(readConnection('postgres://u:secret@a:1,b/db'))).toBe('a:1, b/db')
  expect(describeConnection(readConnection('postgres://u:secret@a:1/db?options=-c%20a%3Db'))).toBe('a:1/db')
})

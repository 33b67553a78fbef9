import { expect, test } from 'vitest'
import { sql } from './db.ts'
import { change, insertion, json, matching, update, wire } from './rows.ts'

const row = { tenant_id: 'ten_1', id: 'usr_1', mfa_at: new Date(0), last4: 'abcd', secret: 'whsec', name: null }

test('a row is inserted by its keys, alone and at the end of a statement', () => {
  const alone = insertion('webhooks', { tenant_id: 'ten_1', secret_last4: 'abcd' })
  expect(alone.text).toBe('insert into webhooks (tenant_id, secret_last4) values ($1, $2)')
  expect(alone.values).toEqual(['ten_1', 'abcd'])
  expect(alone.name).toBe(sql`insert into webhooks (tenant_id, secret_last4) values (${1}, ${2})`.name)
  const within = sql`with lane as (select ${7}) ${alone}`
  expect(within.text).toBe('with lane as (select $1) insert into webhooks (tenant_id, secret_last4) values ($2, $3)')
  expect(within.values).toEqual([7, 'ten_1', 'abcd'])
})

test('an update sets the named columns of one record', () => {
  const { text, values } = update('webhooks', row, 'name mfa_at')
  expect(text).toBe('update webhooks set name = $1, mfa_at = $2 where tenant_id = $3 and id = $4')
  expect(values).toEqual([null, row.mfa_at, 'ten_1', 'usr_1'])
  expect(sql`set n = n + 1, ${change(row, 'name')}`.text).toBe('set n = n + 1, name = $1')
})

test('a name that is none is refused', () => {
  expect(() => insertion('users; drop', { id: 1 })).toThrow('is no name')
  expect(() => insertion('users', { 'id) values (1); --': 1 })).toThrow('is no name')
  expect(() => matching({ 'true or id': 1 })).toThrow('is no name')
})

test('a condition leaves out what is not asked for', () => {
  const { text, values } = matching({ tenant_id: 'ten_1', app_id: null, status: undefined, user_id: 'usr_1' })
  expect(text).toBe('true and tenant_id = $1 and user_id = $2')
  expect(values).toEqual(['ten_1', 'usr_1'])
})

test('the wire shows the named columns alone, in their order', () => {
  const shown: { name: null; mfaAt: string; last4: string } = wire(
    row,
    `name mfa_at
      last4`,
  )
  expect(JSON.stringify(shown)).toBe('{"name":null,"mfaAt":"1970-01-01T00:00:00.000Z","last4":"abcd"}')
})

test('null is no JSON', () => {
  expect([json(null), json([]), json({ a: 1 })]).toEqual([null, '[]', '{"a":1}'])
})

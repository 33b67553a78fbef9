import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

async function newUser(tenant: Tenant, body: object = {}): Promise<Answer['body']> {
  const answer = await tenant.post('/users', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

const idsOf = (answer: Answer): string[] => answer.body.data.map((user: { id: string }) => user.id)

/** What a search finds, by name or email, sorted; `total` must agree. */
async function found(tenant: Tenant, search: string, more = ''): Promise<string[]> {
  const answer = await tenant.get(`/users?search=${encodeURIComponent(search)}&page_size=100${more}`)
  expect(answer.status, answer.text).toBe(200)
  expect(answer.body.total).toBe(answer.body.data.length)
  return answer.body.data.map((user: { name: string; email: string }) => user.name ?? user.email).sort()
}

describe('paging', () => {
  test('every user is on exactly one page, newest first, at any page size', async () => {
    const tenant = await service.newTenant()
    const made: string[] = []
    for (let i = 0; i < 23; i += 1) made.unshift((await newUser(tenant)).id)
    for (const size of [1, 5, 10, 22, 23, 24, 100]) {
      const pages = Math.ceil(23 / size)
      const seen: string[] = []
      for (let page = 1; page <= pages + 1; page += 1) {
        const answer = await tenant.get(`/users?page=${page}&page_size=${size}`)
        expect(answer.body).toMatchObject({ total: 23, page, pageSize: size, hasMore: page < pages })
        seen.push(...idsOf(answer))
      }
      expect(seen).toEqual(made)
    }
    expect(idsOf(await tenant.get('/users'))).toEqual(made.slice(0, 20))
  })

  test('twenty creations at once are all counted', async () => {
    const tenant = await service.newTenant()
    await Promise.all(Array.from({ length: 20 }, () => newUser(tenant)))
    expect((await tenant.get('/users?page_size=1')).body).toMatchObject({ total: 20, hasMore: true })
  })

  test('nothing of another tenant is listed, counted or found', async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    const user = await newUser(other, { name: 'Ada' })
    expect((await tenant.get('/users')).body).toEqual({ data: [], total: 0, page: 1, pageSize: 20, hasMore: false })
    expect(await found(tenant, 'ada')).toEqual([])
    expect(await found(tenant, user.id)).toEqual([])
    expect(await found(tenant, user.partyId)).toEqual([])
  })
})

describe('filters', () => {
  test('app_id lists the users of one app, and a bound key sees no others', async () => {
    const tenant = await service.newTenant()
    const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const [first, second] = [await newUser(tenant, { name: 'Ada' }), await newUser(tenant, { name: 'Ada', appId })]
    const key = await tenant.newKey({ scopes: ['users:read'], appId })
    expect(idsOf(await tenant.get('/users'))).toEqual([second.id, first.id])
    for (const query of ['', '&search=ada', '&trust_level=embedded', '&search=ada&trust_level=embedded']) {
      for (const [answer, wanted] of [
        [await tenant.get(`/users?app_id=${tenant.appId}${query}`), first.id],
        [await tenant.get(`/users?app_id=${appId}${query}`), second.id],
        [await tenant.get(`/users?page=1${query}`, { key }), second.id],
        [await tenant.get(`/users?app_id=${appId}${query}`, { key }), second.id],
      ] as const) {
        expect([idsOf(answer), answer.body.total, answer.body.hasMore]).toEqual([[wanted], 1, false])
      }
    }
    const other = await service.newTenant()
    for (const [wrong, options] of [
      [other.appId, {}],
      ['none', {}],
      ['', {}],
      [tenant.appId, { key }],
    ] as const) {
      const answer = await tenant.get(`/users?app_id=${wrong}`, options)
      expectError(answer, 404, 'not_found')
      expect(answer.body.details[0].field).toBe('app_id')
    }
  })

  test('trust_level takes the three levels and no other value', async () => {
    const tenant = await service.newTenant()
    const { id } = await newUser(tenant, { name: 'Ada' })
    expect((await tenant.get('/users?trust_level=embedded')).body.total).toBe(1)
    for (const level of ['shared', 'self_custody'])
      for (const query of ['', '&search=ada']) {
        const answer = await tenant.get(`/users?trust_level=${level}${query}`)
        expect(answer.body).toMatchObject({ data: [], total: 0, hasMore: false })
      }
    for (const level of ['', 'Embedded', 'embedded ', 'custodial', 'null']) {
      const [detail] = expectRefusal(
        await tenant.get(`/users?trust_level=${encodeURIComponent(level)}`),
        'validation_failed',
      )
      expect(detail.field).toBe('trust_level')
    }
    expect(idsOf(await tenant.get('/users?trust_level=embedded&search=ada'))).toEqual([id])
  })

  test('a forced deletion of an app takes its users out of every count', async () => {
    const tenant = await service.newTenant()
    const appId = (await tenant.post('/apps', { name: 'Other' })).body.data.id
    const kept = await newUser(tenant)
    for (let i = 0; i < 3; i += 1) await newUser(tenant, { appId })
    expect((await tenant.get('/users')).body.total).toBe(4)
    expect((await tenant.delete(`/apps/${appId}?force=true`)).status).toBe(200)
    const answer = await tenant.get('/users')
    expect([idsOf(answer), answer.body.total]).toEqual([[kept.id], 1])
  })
})

describe('sort', () => {
  /** The fields of all users, in pages of this size. */
  async function sorted(tenant: Tenant, query: string, field: string, size: number): Promise<(string | null)[]> {
    const all: (string | null)[] = []
    for (let page = 1; ; page += 1) {
      const { body } = await tenant.get(`/users?${query}&page_size=${size}&page=${page}`)
      all.push(...body.data.map((user: Record<string, string | null>) => user[field]))
      if (!body.hasMore) return all
    }
  }

  test.each(['email', 'externalId'])(
    '%s orders the users of all apps, and those without one come last',
    async (field) => {
      const tenant = await service.newTenant()
      const other = (await tenant.post('/apps', { name: 'Other' })).body.data.id
      const values = ['Mid@example.com', 'zoe@example.com', 'ada@example.com', 'eve@example.com', 'bob@example.com']
      const shown = field === 'email' ? values : values.map((value) => value.toLowerCase())
      for (const [at, value] of shown.entries()) {
        await newUser(tenant, { name: `none ${at}` })
        await newUser(tenant, { [field]: value, name: `some ${at}`, ...(at % 2 === 0 ? {} : { appId: other }) })
      }
      const ascending = shown.toSorted((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1))
      const none = Array<null>(5).fill(null)
      for (const size of [1, 3, 4, 5, 7, 10, 100]) {
        expect(await sorted(tenant, `sort=${field}`, field, size)).toEqual([...ascending, ...none])
        expect(await sorted(tenant, `sort=-${field}`, field, size)).toEqual([...ascending.toReversed(), ...none])
        const searched = await sorted(tenant, `sort=${field}&search=OM`, field, size)
        expect(searched).toEqual(ascending)
      }
      const names = ['none 4', 'none 3', 'none 2', 'none 1', 'none 0']
      for (const size of [2, 100]) expect((await sorted(tenant, `sort=${field}`, 'name', size)).slice(5)).toEqual(names)
      const inOther = await sorted(tenant, `sort=-${field}&app_id=${other}`, field, 1)
      expect(inOther).toEqual(['zoe@example.com', 'eve@example.com'])
      expect(await sorted(tenant, `sort=${field}&trust_level=shared`, field, 10)).toEqual([])
    },
  )

  test('createdAt orders from the oldest, on every page and with a search', async () => {
    const tenant = await service.newTenant()
    const made: string[] = []
    for (let at = 0; at < 11; at += 1) made.push((await newUser(tenant, { name: `user ${at}` })).id)
    for (const size of [1, 4, 11, 20])
      for (const query of ['', '&search=user'])
        expect(await sorted(tenant, `sort=createdAt${query}`, 'id', size)).toEqual(made)
  })
})

describe('search', () => {
  test('finds a part of email, name, external id and id, whatever its case', async () => {
    const tenant = await service.newTenant()
    const ada = await newUser(tenant, { name: 'Ada Lovelace', email: 'Countess@Example.com', externalId: 'EXT-7' })
    await newUser(tenant, { name: 'Grace' })
    for (const search of [
      'ada l',
      'LOVE',
      'a l',
      'countess@',
      'EXAMPLE.COM',
      'ext-7',
      'T-7',
      ada.id,
      ada.id.toUpperCase(),
      ada.id.slice(-6),
    ])
      expect(await found(tenant, search), search).toEqual(['Ada Lovelace'])
    expect(await found(tenant, 'hopper')).toEqual([])
    expect(await found(tenant, '')).toEqual(['Ada Lovelace', 'Grace'])
    expect(await found(tenant, 'usr_')).toEqual(['Ada Lovelace', 'Grace'])
  })

  test('is literal: no character means more than itself', async () => {
    const tenant = await service.newTenant()
    const names = ['100%', '100x', 'a_b', 'axb', 'c\\d', 'cd', 'e.f', 'exf', "o'k", 'q"q', '[x]', '$1', '(', 'h*', 'h']
    for (const name of names) await newUser(tenant, { name })
    for (const [search, wanted] of [
      ['%', ['100%']],
      ['_b', ['a_b']],
      ['\\', ['c\\d']],
      ['\\d', ['c\\d']],
      ['e.f', ['e.f']],
      ["'", ["o'k"]],
      ['"', ['q"q']],
      ['[x]', ['[x]']],
      ['$1', ['$1']],
      ['(', ['(']],
      ['*', ['h*']],
      ["' OR 1=1", []],
      ['%%', []],
      ['\\%', []],
    ] as const)
      expect(await found(tenant, search), search).toEqual(wanted)
  })

  test('finds names of any script in any Unicode form and case', async () => {
    const tenant = await service.newTenant()
    for (const name of ['Zoë', 'ΟΔΟΣΑ', 'ΟΔΟΣ', 'Straße', 'Ωμέγα', '山田太郎', 'Иван', '😀 smile', 'İstanbul'])
      await newUser(tenant, { name })
    for (const [search, wanted] of [
      ['zoe\u0308', ['Zoë']],
      ['ZOË', ['Zoë']],
      ['οδοσ', ['ΟΔΟΣ', 'ΟΔΟΣΑ']],
      ['οδος', ['ΟΔΟΣ', 'ΟΔΟΣΑ']],
      ['ΟΔΟΣ', ['ΟΔΟΣ', 'ΟΔΟΣΑ']],
      ['STRAẞE', ['Straße']],
      ['ωΜΈΓΑ', ['Ωμέγα']],
      ['田太', ['山田太郎']],
      ['иВАН', ['Иван']],
      ['😀', ['😀 smile']],
      ['İSTANBUL', ['İstanbul']],
    ] as const)
      expect(await found(tenant, search), search).toEqual([...wanted].sort())
  })

  test('finds a party by any part of it: id, namespace, and across the two', async () => {
    const tenant = await service.newTenant()
    const ada = await newUser(tenant, { name: 'Ada' })
    const eve = await newUser(tenant, { name: 'Eve' })
    const [, namespace] = ada.partyId.split('::') as [string, string]
    for (const search of [
      ada.partyId,
      ada.partyId.toUpperCase(),
      `${ada.id}:`,
      `${ada.id}::12`,
      `${ada.id.slice(-20)}::${namespace}`,
    ])
      expect(await found(tenant, search), search).toEqual(['Ada'])
    for (const search of [
      '::',
      '::1220',
      ':1220',
      '1220',
      namespace,
      namespace.slice(5, 20),
      namespace.slice(-1),
      `::${namespace}`,
    ])
      expect(await found(tenant, search), search).toEqual(['Ada', 'Eve'])
    for (const search of [
      `${namespace}0`,
      `::${namespace.slice(1)}`,
      `${ada.id}::${namespace}x`,
      `u::${namespace}`,
      ':::',
    ])
      expect((await found(tenant, search)).length, search).toBe(0)
    expect(await found(tenant, `${eve.id.slice(-1)}::${namespace}`)).toContain('Eve')
  })

  test('matches within one field, never across two', async () => {
    const tenant = await service.newTenant()
    const user = await newUser(tenant, { email: 'a@b.c', name: 'Ada', externalId: 'x7' })
    for (const search of ['a@b.cada', 'a@b.c ada', 'adax7', 'ada x7', `${user.id}a@b.c`, 'a@b.c\nada']) {
      const answer = await tenant.get(`/users?search=${encodeURIComponent(search)}`)
      expect([200, 400], search).toContain(answer.status)
      if (answer.status === 200) expect(answer.body.total, search).toBe(0)
    }
    for (let code = 1; code < 32; code += 1) {
      const answer = await tenant.get(`/users?search=c${encodeURIComponent(String.fromCharCode(code))}a`)
      expect(answer.body.total ?? 0, `character ${code}`).toBe(0)
    }
  })

  test('sees a change at once, and the old value no more', async () => {
    const tenant = await service.newTenant()
    const { id } = await newUser(tenant, { name: 'Lovelace', email: 'lovelace@example.com' })
    await tenant.patch(`/users/${id}`, { name: 'Grace', email: null })
    expect(await found(tenant, 'grace')).toEqual(['Grace'])
    expect(await found(tenant, 'lovelace')).toEqual([])
    expect(await found(tenant, 'example')).toEqual([])
  })

  test('pages through what it finds, with an exact total', async () => {
    const tenant = await service.newTenant()
    const made: string[] = []
    for (let i = 0; i < 7; i += 1) {
      made.unshift((await newUser(tenant, { name: `match ${i}` })).id)
      await newUser(tenant, { name: `other ${i}` })
    }
    const seen: string[] = []
    for (const page of [1, 2, 3, 4]) {
      const answer = await tenant.get(`/users?search=MATCH&page_size=3&page=${page}`)
      expect(answer.body).toMatchObject({ total: 7, hasMore: page < 3 })
      seen.push(...idsOf(answer))
    }
    expect(seen).toEqual(made)
  })

  test('is at most 200 characters', async () => {
    const tenant = await service.newTenant()
    expect(await found(tenant, 'x'.repeat(200))).toEqual([])
    const [detail] = expectRefusal(await tenant.get(`/users?search=${'x'.repeat(201)}`), 'validation_failed')
    expect(detail.field).toBe('search')
  })
})

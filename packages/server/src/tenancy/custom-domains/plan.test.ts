import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { signUp } from '../../../test/harness/authenticator.ts'
import { eventually, type Tenant } from '../../../test/harness/harness.ts'
import { newDomainName } from '../../../test/matrix/requests.ts'
import { type Registered, registered, type Stage, startStage, verified } from './custom-domains.fixture.ts'

let stage: Stage
beforeAll(async () => {
  stage = await startStage({ HALFKEY_PUBLIC_URL: 'https://id.halfkey.example', HALFKEY_INSECURE_DEV: '1' })
})
afterAll(() => stage.stop())

/** A tenant whose app has a relying party that nobody else names. */
async function newOwner(allowedOrigins: string[] = []): Promise<{ tenant: Tenant; rpId: string }> {
  const tenant = await stage.service.newTenant()
  const rpId = newDomainName()
  await tenant.patch(`/apps/${tenant.appId}`, { passkey: { rpId }, allowedOrigins })
  return { tenant, rpId }
}

async function planOf(tenant: Tenant, { id }: Registered) {
  const answer = await tenant.get(`/custom-domains/${id}/plan`)
  expect(answer.status, answer.text).toBe(200)
  const { steps, ...plan } = answer.body.data
  return { plan, steps: steps.map((step: { code: string; done: boolean | null }) => [step.code, step.done]) }
}

test('a domain that is not verified reaches nothing; the steps say what is missing', async () => {
  const { tenant, rpId } = await newOwner()
  const made = await registered(tenant, { domain: `login-${newDomainName().replace('.example.com', '.example.org')}` })
  expect(await planOf(tenant, made)).toEqual({
    plan: { domain: made.domain, appId: tenant.appId, rpId, reach: 'none', passkeys: [] },
    steps: [
      ['verify_domain', false],
      ['serve_related_origins', null],
      ['be_listed', false],
      ['lead_users_there', null],
      ['keep_relying_party', null],
    ],
  })
})

test('a verified one is a related origin; passkeys are counted by the relying party that they belong to', async () => {
  const { tenant, rpId } = await newOwner()
  const origin = `https://${rpId}`
  await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: [origin] })
  const browser = { url: stage.service.url, key: await tenant.newKey({ publishable: true }) }
  for (let n = 0; n < 3; n += 1) await signUp(browser, {}, { origin })
  await tenant.patch(`/apps/${tenant.appId}`, { passkey: { rpId: 'example.com' } })
  await signUp(browser, {}, { origin })
  await tenant.patch(`/apps/${tenant.appId}`, { passkey: { rpId } })
  const made = await verified(stage, tenant)
  const { plan, steps } = await planOf(tenant, made)
  expect(plan).toMatchObject({
    rpId,
    reach: 'related_origin',
    passkeys: [
      { rpId, count: 3, reach: 'related_origin' },
      { rpId: 'example.com', count: 1, reach: 'same_site' },
    ],
  })
  expect(steps.slice(0, 3)).toEqual([
    ['verify_domain', true],
    ['serve_related_origins', null],
    ['be_listed', true],
  ])
})

test('a domain under the relying party needs no related origins', async () => {
  const { tenant, rpId } = await newOwner()
  const { plan, steps } = await planOf(tenant, await verified(stage, tenant, { domain: `login.${rpId}` }))
  expect(plan.reach).toBe('same_site')
  expect(steps.map(([code]: [string]) => code)).toEqual(['verify_domain', 'lead_users_there', 'keep_relying_party'])
})

test('behind five other sites a domain is not heeded; before them, or on one of them, it is', async () => {
  const { tenant } = await newOwner(['a', 'b', 'c', 'd', 'e'].map((n) => `https://shop.site-${n}.org`))
  const reachOf = async (domain: string) => (await planOf(tenant, await verified(stage, tenant, { domain }))).plan.reach
  // Browsers read the list in its order, which is the alphabet's.
  const name = newDomainName().replace('.example.com', '')
  expect(await reachOf(`zz.${name}.net`)).toBe('too_many_sites')
  expect(await reachOf('zz.site-a.org')).toBe('related_origin')
  expect(await reachOf(`aa.${name}.net`)).toBe('related_origin')
  expect(await reachOf('yy.site-e.org')).toBe('too_many_sites')
})

test('counts that take long keep nobody else waiting', async () => {
  const tenant = await stage.service.newTenant()
  // More apps than the pool has connections, each asked several times.
  const made = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const appId = (await tenant.post('/apps', { name: `App ${n}` })).body.data.id
      return registered(tenant, { appId })
    }),
  )
  const holder = new pg.Client({ connectionString: stage.service.databaseUrl })
  await holder.connect()
  onTestFinished(() => holder.end())
  await holder.query('begin')
  await holder.query('lock table passkeys in access exclusive mode')
  const plans = Promise.all([...made, ...made, ...made].map(({ id }) => tenant.get(`/custom-domains/${id}/plan`)))
  const counts = () =>
    // Other services' databases are clones: their tables have the same oids.
    stage.service.sql<{ pid: number }>(
      `select pid from pg_locks where relation = 'passkeys'::regclass and not granted
         and database = (select oid from pg_database where datname = current_database())`,
    )
  await eventually('they wait', async () => (await counts()).length > 0)
  const other = await stage.service.newTenant()
  for (let n = 0; n < 20; n += 1) expect((await other.get('/users')).status).toBe(200)
  expect((await counts()).length).toBeLessThanOrEqual(2)
  await holder.query('commit')
  for (const answer of await plans) expect(answer.status, answer.text).toBe(200)
})

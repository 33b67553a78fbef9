import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { answer } from '../../../../test/harness/receiver.ts'
import { startMailing } from '../../email-sign-in/email.fixture.ts'
import { startIssuer } from '../../foreign-tokens/issuer.fixture.ts'
import { startFakeProvider } from '../../providers/provider.fixture.ts'
import { counted, expectSigned, type HookServer, setHook, startHookServer } from './hook.fixture.ts'
import { WAYS, type World } from './ways.fixture.ts'

let world: World
let hook: HookServer
beforeAll(async () => {
  const mailing = await startMailing()
  const { service } = mailing
  world = { mailing, issuer: await startIssuer(service), provider: await startFakeProvider(service) }
  hook = await startHookServer()
})
afterAll(async () => {
  await world.mailing.stop()
  await Promise.all([world.issuer.close(), world.provider.close(), hook.close()])
})
beforeEach(() => {
  hook.received.length = 0
  hook.decide({ decision: 'allow' })
})

describe.each(Object.entries(WAYS))('%s', (_, way) => {
  test("begins no session that the app's server refuses, and leaves nothing behind", async () => {
    const { tenant, attempt } = await way.prepare(world)
    await setHook(tenant, hook)
    const before = await counted(world.mailing.service, tenant)
    hook.decide({ decision: 'refuse', reason: 'region_blocked' })
    const refused = await attempt()
    expect(refused.body.code, refused.text).toBe('sign_in_refused')
    expect(await counted(world.mailing.service, tenant)).toEqual(before)
    expect(hook.received).toHaveLength(1)
  })

  test('begins one that it allows, which it is asked about once', async () => {
    const { tenant, attempt } = await way.prepare(world)
    await setHook(tenant, hook)
    const before = await counted(world.mailing.service, tenant)
    const signedIn = await attempt()
    expect([200, 201], signedIn.text).toContain(signedIn.status)
    const { sessions } = await counted(world.mailing.service, tenant)
    // A guest who becomes a user by themselves keeps theirs.
    expect(sessions - before.sessions).toBe(way.keepsSession === true ? 0 : 1)
    expect(hook.received).toHaveLength(1)
    const [asked] = hook.received
    if (asked === undefined) throw new Error('nobody was asked')
    expectSigned(asked)
    expect(asked.event).toMatchObject({
      type: 'session.before_create',
      data: { appId: tenant.appId, method: way.method, isNewUser: way.isNewUser, user: {}, methods: expect.any(Array) },
    })
    expect(asked.event.data.user.id === null).toBe(way.isNewUser)
  })

  test('begins none while the server fails, unless the app lets it', async () => {
    const { tenant, attempt } = await way.prepare(world)
    await setHook(tenant, hook)
    const before = await counted(world.mailing.service, tenant)
    hook.behave(answer(500))
    const failed = await attempt()
    expect(failed.body.code, failed.text).toBe('sign_in_hook_failed')
    expect(await counted(world.mailing.service, tenant)).toEqual(before)
    await setHook(tenant, hook, { onFailure: 'allow' })
    const signedIn = await attempt()
    expect([200, 201], signedIn.text).toContain(signedIn.status)
  })
})

import { afterAll, expect, it } from 'vitest'
import { logIn, newAuthenticator, ORIGIN, signUp } from '../harness/authenticator.ts'
import { eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, killAll } from '../harness/service-process.ts'
import { Mortal } from './mortal.ts'
import { BOB, transfer } from './scene.ts'

const TEST_MS = 180_000
const DAY_MS = 86_400_000

afterAll(killAll)

it('a process that is killed while the owner approves has executed once or not at all, and a repeat tells which', {
  timeout: TEST_MS,
}, async (context) => {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const service = new Mortal(folder, database.url)
  await service.start()
  const [app] = (await service.call('GET', '/apps')).body.data
  const created = await service.call('POST', '/api-keys', { name: 'pk', type: 'publishable', appId: app.id })
  const { key } = created.body.data
  const authenticator = newAuthenticator()
  const { user } = await signUp({ url: service.process.url, key }, {}, { authenticator })
  const userId: string = user.id
  const asUser = { 'x-user-id': userId }
  expect((await service.call('POST', '/users/me/wallet', {}, asUser)).status).toBe(201)
  // A passkey approves from the next day.
  await service.process.kill()
  await service.start(DAY_MS)

  const steps = ['approved', 'decided', 'approved', 'decided']
  for (const [round, step] of steps.entries()) {
    const dripped = (await service.call('POST', '/dev/faucet', { userId, symbol: 'USDX', amount: '7' })).body.data
    const asset = { issuer: dripped.issuer, symbol: 'USDX' }
    const policy = {
      allow: [{ templateId: 'Token:Holding' }],
      spend: [{ asset, amount: '10' }],
      requireApproval: [{ asset, above: '5' }],
    }
    const session = (await service.call('POST', '/delegated-sessions', { policy }, asUser)).body.data
    const path = `/delegated-sessions/${session.id}/execute`
    const body = { commandId: `order-${round}`, commands: [transfer(dripped.contractId, undefined, BOB)] }
    const { approval } = (await service.call('POST', path, body)).body.data
    const happened = async () => (await service.call('GET', '/transactions?status=completed')).body.total as number
    const before = await happened()

    // A process that was started again has another address, and so is another issuer of tokens: the owner signs in again.
    const approve = async () => {
      const { accessToken } = await logIn({ url: service.process.url, key }, authenticator)
      const headers = { authorization: `Bearer ${accessToken}`, origin: ORIGIN }
      const at = `/approvals/${approval.id}`
      const { publicKey } = (await service.process.call(key, 'GET', at, { headers })).body.data
      const asked = publicKey ?? { challenge: 'AAAA', rpId: 'localhost', allowCredentials: [] }
      const body = { credential: authenticator.get(asked) }
      return service.process.call(key, 'POST', `${at}/approve`, { headers, body })
    }
    service.dieAt(step)
    expect(await approve().catch(() => null)).toBeNull()
    await service.start()

    const wasDone = step === 'decided'
    expect(await happened(), step).toBe(before + (wasDone ? 1 : 0))
    const shown = (await service.call('GET', `/approvals/${approval.id}`)).body.data
    expect(shown.status, step).toBe(wasDone ? 'executed' : 'pending')
    const again = await eventually('an answer', approve)
    expect(again.status, again.text).toBe(200)
    expect(again.body.data.status).toBe('executed')
    expect(await happened()).toBe(before + 1)
    const done = (await service.call('POST', path, body)).body.data
    expect(done).toMatchObject({ status: 'completed', remaining: { spend: [{ spent: '7', remaining: '3' }] } })
  }
  expect(await service.process.stop()).toEqual({ code: 0, signal: null })
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually } from '../../../test/harness/harness.ts'
import { halfkey, type Installation, isReady, marksIn, newInstallation, readyz } from './restore.fixture.ts'

let installation: Installation
beforeAll(async () => {
  installation = await newInstallation()
})
afterAll(() => installation.remove())

test.for([
  ['marked', null, '9'],
  ['enforced', null, '9'],
  ['enforced', Buffer.of(1, 2, 3), '9223372036854775807'],
] as const)(
  'an accepted restore that somebody else wrote counts nowhere, with records %s and the MAC %o; an operator gets past it',
  async ([records, mac, epoch]) => {
    const service = await installation.start({ HALFKEY_RECORDS: records })
    const tenant = await service.newTenant()
    const { epoch: before } = await eventually('a floor', async () => marksIn(installation.floor))
    await service.sql('insert into accepted_restores (id, epoch, accepted_at, mac) values ($1, $2, now(), $3)', [
      '',
      epoch,
      mac,
    ])
    await eventually('the refusal', async () => (await readyz(service)).status === 503)
    expectError(await tenant.get('/users'), 500, 'database_behind_floor')
    const shown = await halfkey(service, 'restore', 'show')
    expect([shown.exitCode, shown.out]).toEqual([1, expect.stringContaining('that 1 restore had been accepted')])
    // Nothing may seal it, either.
    const enforced = await halfkey(service, 'records', 'enforce', '--accept-missing')
    expect([enforced.exitCode, enforced.err]).toEqual([1, expect.stringContaining('accepted_restore')])
    await service.stop()
    const second = await installation.start({ HALFKEY_RECORDS: records })
    expectError(await call(second.url, 'GET', '/v1/users', { key: tenant.key }), 500, 'database_behind_floor')
    expect(marksIn(installation.floor).epoch).toBe(before)
    expect((await halfkey(second, 'restore', 'accept', '--keep-api-keys')).exitCode).toBe(0)
    await isReady(second)
    expect(marksIn(installation.floor).epoch).toBe(before + 1)
    expect(await second.sql(`select from accepted_restores where epoch > 8`)).toEqual([])
    await second.stop()
  },
)

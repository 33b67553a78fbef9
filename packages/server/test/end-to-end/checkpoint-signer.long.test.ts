import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { halfkey } from '../../src/operations/restore/restore.fixture.ts'
import { eventually, type Service, startService } from '../harness/harness.ts'
import { makeSoftHsm, NO_SOFTHSM, type SoftHsm } from '../harness/softhsm.ts'

describe.skipIf(NO_SOFTHSM !== null)('checkpoints that a hardware module signs', () => {
  let hsm: SoftHsm
  let service: Service
  beforeAll(async () => {
    hsm = makeSoftHsm()
    for (const [name, value] of Object.entries(hsm.env)) vi.stubEnv(name, value)
    for (const name of ['checkpoint', 'other']) hsm.makeSigningKey(name)
    service = await startService({
      HALFKEY_SIGNERS: `checkpoint:${hsm.address('checkpoint')} checkpoint:${hsm.address('other')}`,
    })
  })
  afterAll(async () => {
    await service?.stop()
    hsm?.remove()
    vi.unstubAllEnvs()
  })

  test('are demanded by their key, and one that the proof key alone signed, or that was changed, is refused', async () => {
    const tenant = await service.newTenant()
    await tenant.post('/users', {})
    await eventually('an entry', async () => (await tenant.get('/audit-log?action=user.created')).body.total > 0)
    const file = (name: string) => join(service.dataDir, name)
    const made = await halfkey(service, 'audit', 'checkpoint', '--tenant', tenant.tenantId, '--out', file('signed'))
    expect([made.exitCode, made.err]).toEqual([0, ''])
    const signer = await service.deps.signers.first('checkpoint')
    const key = signer?.publicKey.toString('hex') as string
    const line = JSON.parse(readFileSync(file('signed'), 'utf8'))
    expect(line.module).toEqual({ publicKey: key, signature: expect.stringMatching(/^[0-9a-f]{128}$/) })
    const { module, ...bare } = line
    const elsewhere = (await signer?.sign(Buffer.from('another message')))?.toString('hex')
    for (const [name, content] of [
      ['bare', bare],
      ['forged', { ...line, module: { ...module, signature: elsewhere } }],
      ['claimed', { ...bare, module: { publicKey: 'ab'.repeat(32), signature: module.signature } }],
    ] as const)
      writeFileSync(file(name), `${JSON.stringify(content)}\n`)
    const verify = async (name: string, ...more: string[]) => {
      const run = await halfkey(
        service,
        'audit',
        'verify',
        '--tenant',
        tenant.tenantId,
        '--checkpoint',
        file(name),
        ...more,
      )
      return [run.exitCode, run.err]
    }
    expect(await verify('signed', '--module-key', key)).toEqual([0, expect.any(String)])
    expect((await verify('signed'))[0]).toBe(0)
    // As those of before such a key.
    expect((await verify('bare'))[0]).toBe(0)
    expect(await verify('bare', '--module-key', key)).toEqual([1, expect.stringContaining('its key is none')])
    expect(await verify('signed', '--module-key', 'cd'.repeat(32))).toEqual([
      1,
      expect.stringContaining(`its key is ${key}`),
    ])
    for (const name of ['forged', 'claimed'])
      expect(await verify(name)).toEqual([
        1,
        expect.stringContaining('the signature of the hardware module is not valid'),
      ])
    expect((await verify('signed', '--module-key', 'short'))[0]).toBe(2)
  })

  test('are not written at all while the module does not sign', async () => {
    const broken = await startService({ HALFKEY_SIGNERS: `checkpoint:${hsm.address('none')}` })
    try {
      const tenant = await broken.newTenant()
      await eventually('an entry', async () => (await tenant.get('/audit-log')).body.total > 0)
      const made = await halfkey(broken, 'audit', 'checkpoint', '--tenant', tenant.tenantId)
      expect([made.exitCode, made.out]).toEqual([78, ''])
      expect(made.err).toContain('signing with none')
    } finally {
      await broken.stop()
    }
  })
})

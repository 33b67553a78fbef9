import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { makeSoftHsm, NO_SOFTHSM, type SoftHsm } from '../../../../test/harness/softhsm.ts'
import { isSignedBy } from '../../ports/signature.ts'
import { KeyServiceError, type KeyServiceFailure } from '../key-services/key-service.ts'
import { createSigners, readSigners, type Signers } from './signers.ts'

const payload = Buffer.from('what is to be signed')

const refusal = async (work: Promise<unknown>): Promise<KeyServiceFailure> => {
  const error = await work.then(
    () => new Error('it went well'),
    (failure: Error) => failure,
  )
  expect(error).toBeInstanceOf(KeyServiceError)
  return (error as KeyServiceError).failure
}

/** The processes of this one in which a library signs. */
const signing = () =>
  readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        const parent = / \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^\d+ \(.*\)/, ' '))?.[1]
        return parent === String(process.pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('pkcs11-signer')
      } catch {
        return false
      }
    })
    .map(Number)

describe.skipIf(NO_SOFTHSM !== null)(
  `keys in a token of SoftHSM${NO_SOFTHSM === null ? '' : ` (skipped: ${NO_SOFTHSM})`}`,
  () => {
    let hsm: SoftHsm
    let signers: Signers
    const open = (...named: string[]) => {
      signers = createSigners(readSigners(named.map((name) => `token:${hsm.address(name)}`).join(' ')))
      return signers
    }
    beforeAll(() => {
      hsm = makeSoftHsm()
      for (const [name, value] of Object.entries(hsm.env)) vi.stubEnv(name, value)
    })
    beforeEach(() => {
      for (const name of ['first', 'second']) {
        hsm.forget(name)
        hsm.makeSigningKey(name)
      }
    })
    afterEach(() => signers?.close())
    afterAll(() => {
      hsm?.remove()
      vi.unstubAllEnvs()
    })

    test('sign as Ed25519 does, many at once, and the first is what a rotation changes to', async () => {
      const first = await open('first', 'second').first('token')
      expect(first?.publicKey).toHaveLength(32)
      const texts = Array.from({ length: 50 }, () => randomBytes(200))
      const signatures = await Promise.all(texts.map((text) => first?.sign(text)))
      for (const [at, signature] of signatures.entries())
        expect(isSignedBy(first?.publicKey as Buffer, texts[at] as Buffer, signature as Buffer)).toBe(true)
      expect(await signers.first('identity')).toBeNull()
    })

    test('are found by their public half, and by nothing else', async () => {
      const second = (await open('second').first('token')) as NonNullable<Awaited<ReturnType<Signers['first']>>>
      signers.close()
      const found = await open('first', 'second').find('token', second.publicKey)
      expect(found.publicKey.equals(second.publicKey)).toBe(true)
      expect(await refusal(signers.find('token', randomBytes(32)))).toBe('gone')
      expect(await refusal(signers.find('identity', second.publicKey))).toBe('gone')
    })

    test('that are replaced under the same label sign no more as the one before', async () => {
      const before = await open('first').first('token')
      hsm.forget('first')
      hsm.makeSigningKey('first')
      for (const pid of signing()) process.kill(pid, 'SIGKILL')
      expect(['gone', 'unavailable']).toContain(await refusal(before?.sign(payload) as Promise<Buffer>))
      expect(await refusal(before?.sign(payload) as Promise<Buffer>)).toBe('gone')
      expect(await refusal(signers.find('token', before?.publicKey as Buffer))).toBe('gone')
    })

    test('that are missing are gone, and a wrong PIN is denied', async () => {
      expect(await refusal(open('none').first('token'))).toBe('gone')
      signers.close()
      writeFileSync(hsm.pinFile, '000000')
      expect(await refusal(open('first').first('token'))).toBe('denied')
      writeFileSync(hsm.pinFile, '824317')
      await signers.first('token')
    })

    test('that hang are unavailable in bounded time, then at once, and sign again afterwards', async () => {
      const first = await open('first').first('token')
      const sign = () => first?.sign(payload) as Promise<Buffer>
      for (const pid of signing()) process.kill(pid, 'SIGSTOP')
      expect(await Promise.all([refusal(sign()), refusal(sign())])).toEqual(['unavailable', 'unavailable'])
      // Refused without asking: no process is begun for it.
      await expect(sign()).rejects.toThrow('it did not answer shortly before')
      await vi.waitFor(() => expect(signing()).toEqual([]), { timeout: 20_000, interval: 50 })
      await vi.waitFor(sign, { timeout: 20_000, interval: 200 })
    })

    test('that are slow sign a burst in its turn, however long its last one waits', async () => {
      const slow = `${hsm.pinFile}-slow.cjs`
      writeFileSync(
        slow,
        `const { PKCS11 } = require(${JSON.stringify(createRequire(import.meta.url).resolve('pkcs11js'))})
         const { C_Sign } = PKCS11.prototype
         PKCS11.prototype.C_Sign = function (...given) {
           Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
           return C_Sign.apply(this, given)
         }`,
      )
      const before = process.env.NODE_OPTIONS ?? ''
      vi.stubEnv('NODE_OPTIONS', `${before} --require ${slow}`)
      try {
        const first = await open('first').first('token')
        const begun = performance.now()
        const signed = await Promise.all(Array.from({ length: 11 }, () => first?.sign(payload)))
        expect(signed).toHaveLength(11)
        // The last one had waited longer than the module may take for one.
        expect(performance.now() - begun).toBeGreaterThan(5_000)
      } finally {
        vi.stubEnv('NODE_OPTIONS', before)
      }
    })

    test('whose library ends its process sign again in another one, and leave none behind', async () => {
      const first = await open('first').first('token')
      const [pid] = signing()
      process.kill(pid as number, 'SIGKILL')
      await vi.waitFor(() => first?.sign(payload), { timeout: 20_000, interval: 50 })
      signers.close()
      await vi.waitFor(() => expect(signing()).toEqual([]), { timeout: 20_000, interval: 50 })
    })

    test('that wait for work keep no program from ending', () => {
      const program = `
      import { createSigners, readSigners } from ${JSON.stringify(new URL('./signers.ts', import.meta.url).href)}
      const signer = await createSigners(readSigners(${JSON.stringify(`token:${hsm.address('first')}`)})).first('token')
      console.log((await signer.sign(Buffer.from('a'))).length)`
      const said = execFileSync(process.execPath, ['--input-type=module', '-e', program], { timeout: 60_000 })
      expect(said.toString().trim()).toBe('64')
    })
  },
)

test.each(['token:awskms:somewhere', 'other:pkcs11:token=a', 'token:pkcs11:token=a', 'pkcs11:token=a'])(
  'the setting "%s" is refused with the right form',
  (text) => {
    expect(() => readSigners(text)).toThrow(/<use>:pkcs11:token=<token>/)
  },
)

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import { newSharedWallet } from '../../src/keys/key-shares/key-shares.fixture.ts'
import { expectData, expectSigns, type Held, hex, release, start } from '../../src/keys/recovery/recovery.fixture.ts'
import { newApiKey } from '../../src/platform/security/api-key.ts'
import * as keys from '../../src/platform/security/threshold/threshold.ts'
import { type Answer, type CallOptions, eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, killAll, query, ServiceProcess } from '../harness/service-process.ts'
import { report, scale } from './report.ts'

const CHILD = fileURLToPath(new URL('execute-process.ts', import.meta.url))
const TEST_MS = 60_000 + 30_000 * scale
const HOUR_MS = 3_600_000

afterAll(killAll)

/** A service that is killed and followed by another process, always on the same database. */
async function newMortal(context: TestContext) {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const key = newApiKey('secret')
  const failAtFile = join(folder.path, 'fail-at')
  let running: ServiceProcess | undefined
  const mortal = {
    get process(): ServiceProcess {
      if (running === undefined) throw new Error('it has not been started')
      return running
    },
    /** @param aheadMs how much later than now it is for the process */
    async start(aheadMs = 0): Promise<void> {
      const env = folder.env({
        DATABASE_URL: database.url,
        HALFKEY_ADMIN_KEY: key,
        FAIL_AT_FILE: failAtFile,
        AHEAD_MS: String(aheadMs),
      })
      running = await new ServiceProcess({
        cwd: folder.path,
        env,
        program: [process.execPath, CHILD],
        args: [],
      }).ready()
    },
    dieAt: (step: string) => writeFileSync(failAtFile, step),
    call: (method: string, path: string, options: CallOptions = {}): Promise<Answer> =>
      mortal.process.call(key, method, path, options),
    sql: <Row extends object>(text: string, values: unknown[] = []) =>
      query<Row>({ connectionString: database.url }, text, values),
  }
  await mortal.start()
  return mortal
}

type Mortal = Awaited<ReturnType<typeof newMortal>>

/** A user's shared wallet; a server acts for the user, in whichever process there is. */
async function newHeld(mortal: Mortal): Promise<Held> {
  const [app] = expectData(await mortal.call('GET', '/apps'), 200)
  const body = { mpc: { allowServer: true } }
  expectData(await mortal.call('PATCH', `/apps/${app.id}`, { body }), 200)
  const [tenant] = await mortal.sql<{ id: string }>('select id from tenants')
  const { id: userId } = expectData(await mortal.call('POST', '/users', { body: {} }), 201)
  const headers = { 'x-user-id': userId }
  const person = {
    appId: app.id,
    userId,
    get: (path: string) => mortal.call('GET', path, { headers }),
    post: (path: string, sent?: unknown) => mortal.call('POST', path, { body: sent ?? {}, headers }),
  }
  return newSharedWallet(undefined as never, { tenantId: tenant?.id } as never, { person: person as never })
}

const rowsOf = ({ sql }: Mortal, { walletId }: Held) =>
  sql<{ generation: number; index: number; status: string; kept: boolean }>(
    `select generation, index, status, share_sealed is not null as kept from key_shares where wallet_id = $1
     order by generation, index`,
    [walletId],
  )

const liveOf = async (mortal: Mortal, held: Held) =>
  (await rowsOf(mortal, held))
    .filter(({ status }) => status === 'active')
    .map(({ generation, index, kept }) => `${generation}.${index}${kept ? ' kept' : ''}`)

const live = (generation: number) => [`${generation}.1 kept`, `${generation}.2`, `${generation}.3`]

/** That the service's share goes with the user's, and the two are the key. */
async function expectWorks(held: Held): Promise<void> {
  const { share } = await release(held, { of: [3] })
  expectSigns(held, keys.joinShares(held.sharing, [share, held.share(2)]))
}

const told = async ({ sql }: Mortal) =>
  (
    await sql<{ mode: string }>(
      `select body::json -> 'data' ->> 'mode' as mode from events where type = 'key.recovered'`,
    )
  )
    .map(({ mode }) => mode)
    .filter((mode) => mode === 'reshare').length

describe('a resharing whose process is killed', () => {
  it(
    'after its start, or before the switch commits, is confirmed at another process; until then the old shares work',
    async (context) => {
      const mortal = await newMortal(context)
      let held = await newHeld(mortal)
      const rounds = 1 + scale
      const startedMs = performance.now()
      for (let generation = 1; generation <= rounds; generation += 1) {
        const { body, next } = await start(held, generation % 2 === 0 ? [2, 3] : [1, 2])
        await mortal.process.kill()
        await mortal.start()
        expect(await liveOf(mortal, held)).toEqual(live(generation))
        await expectWorks(held)

        mortal.dieAt('reshared')
        await expect(held.person.post('/mpc/recover', body)).rejects.toThrow()
        expect(await mortal.process.exited).toEqual({ code: null, signal: 'SIGKILL' })
        await mortal.start()
        expect(await liveOf(mortal, held)).toEqual(live(generation))
        expect(await told(mortal)).toBe(generation - 1)
        await expectWorks(held)

        const done = await held.person.post('/mpc/recover', body)
        expect(expectData(done, 200).generation).toBe(generation + 1)
        await mortal.process.kill()
        await mortal.start()
        expect((await held.person.post('/mpc/recover', body)).text).toBe(done.text)
        expect(await liveOf(mortal, held)).toEqual(live(generation + 1))
        expect((await rowsOf(mortal, held)).filter(({ status, kept }) => kept && status !== 'active')).toEqual([])
        expect(await told(mortal)).toBe(generation)
        await expectWorks(next)
        held = next
      }
      report(context, {
        fault: `kill -9 around resharings, × ${rounds * 3}`,
        acknowledged: rounds,
        delivered: null,
        lost: rounds - (await told(mortal)),
        duplicates: null,
        inFlight: null,
        recoveredMs: Math.round((performance.now() - startedMs) / (rounds * 3)),
      })
      expect(await mortal.process.stop()).toEqual({ code: 0, signal: null })
    },
    TEST_MS,
  )

  it(
    'and that nobody confirms within an hour is dropped by another process, and the old shares work',
    async (context) => {
      const mortal = await newMortal(context)
      const held = await newHeld(mortal)
      const { body, next } = await start(held, [1, 3])
      await mortal.process.kill()
      await mortal.start(HOUR_MS)
      const refused = await held.person.post('/mpc/recover', body)
      expect([refused.status, refused.body.code]).toEqual([410, 'reshare_expired'])
      await eventually('the new share destroyed', async () => {
        const rows = await mortal.sql('select 1 from resharings where share_sealed is not null')
        return rows.length === 0
      })
      expect(await liveOf(mortal, held)).toEqual(live(1))
      await expectWorks(held)
      expect(hex(next.share(2).scalar)).not.toBe(hex(held.share(2).scalar))
      expect(await mortal.process.stop()).toEqual({ code: 0, signal: null })
    },
    TEST_MS,
  )
})

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it, type TestContext } from 'vitest'
import {
  type Actor,
  beginDkg,
  confirmBody,
  expectData,
  finishDkg,
  round2Body,
  type SharedKey,
  signNote,
} from '../../src/keys/key-generations/key-generations.fixture.ts'
import { newApiKey } from '../../src/platform/security/api-key.ts'
import { type Answer, call, newDatabase } from '../harness/harness.ts'
import { DataFolder, killAll, query, ServiceProcess } from '../harness/service-process.ts'

const CHILD = fileURLToPath(new URL('execute-process.ts', import.meta.url))
const TEST_MS = 120_000
/** Before what a request did is committed: all of the second round is computed; the wallet stands in the transaction. */
const STEPS = { round2: 'dkg computed', confirm: 'dkg written' } as const

afterAll(killAll)

/** Processes of the service one after the other on one database, and a guest who calls whichever there is. */
class Scene {
  readonly #folder: DataFolder
  readonly #databaseUrl: string
  readonly #key = newApiKey('secret')
  readonly #failAtFile: string
  #processes: ServiceProcess[] = []
  #headers: Record<string, string> = {}
  #publishable = ''

  constructor(folder: DataFolder, databaseUrl: string) {
    this.#folder = folder
    this.#databaseUrl = databaseUrl
    this.#failAtFile = join(folder.path, 'fail-at')
  }

  get process(): ServiceProcess {
    const process = this.#processes.at(-1)
    if (process === undefined) throw new Error('it has not been started')
    return process
  }

  async start(): Promise<void> {
    const env = this.#folder.env({
      DATABASE_URL: this.#databaseUrl,
      HALFKEY_ADMIN_KEY: this.#key,
      FAIL_AT_FILE: this.#failAtFile,
      // Each process has a port of its own: what issues tokens is one service all the same.
      HALFKEY_PUBLIC_URL: 'http://localhost:3000',
    })
    const program = [process.execPath, CHILD]
    this.#processes.push(await new ServiceProcess({ cwd: this.#folder.path, env, program, args: [] }).ready())
  }

  /** `kill -9`, and another process in its place. */
  async replace(): Promise<void> {
    await this.process.kill()
    await this.start()
  }

  /** Whose wallet it is to be: they have a session of their own. */
  async signIn(): Promise<void> {
    const asAdmin = (path: string, body: object) => this.process.call(this.#key, 'POST', path, { body })
    const guest = expectData(await asAdmin('/guests', {}), 201)
    const { body } = await this.process.call(this.#key, 'GET', '/apps')
    const key = { name: 'browser', type: 'publishable', appId: body.data[0].id }
    this.#publishable = expectData(await asAdmin('/api-keys', key), 201).key
    this.#headers = { authorization: `Bearer ${guest.accessToken}` }
  }

  get user(): Actor {
    const send = (method: string, path: string, body?: unknown): Promise<Answer> =>
      call(this.process.url, method, `/v1${path}`, {
        key: this.#publishable,
        headers: this.#headers,
        ...(body === undefined ? {} : { body }),
      })
    return {
      get: (path) => send('GET', path),
      post: (path, body) => send('POST', path, body),
      delete: (path) => send('DELETE', path),
    }
  }

  asDelegate(token: string, path: string, body: object): Promise<Answer> {
    const headers = { authorization: `Bearer ${token}` }
    return call(this.process.url, 'POST', `/v1${path}`, { key: this.#publishable, headers, body })
  }

  /** Sends what the service does not survive, and starts another one. */
  async dieAt(step: string, path: string, body: object): Promise<void> {
    writeFileSync(this.#failAtFile, step)
    await expect(this.user.post(path, body)).rejects.toThrow()
    expect(await this.process.exited, step).toEqual({ code: null, signal: 'SIGKILL' })
    await this.start()
  }

  sql<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    return query<Row>({ connectionString: this.#databaseUrl }, text, values)
  }

  async count(what: string): Promise<number> {
    const [row] = await this.sql<{ n: number }>(`select count(*)::int as n from ${what}`)
    return row?.n as number
  }
}

async function newScene(context: TestContext): Promise<Scene> {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const scene = new Scene(folder, database.url)
  await scene.start()
  await scene.signIn()
  return scene
}

/** That the service's share is of the same key as the user's: the two sign together. */
async function expectTheySign(scene: Scene, author: string, key: SharedKey): Promise<void> {
  const body = { policy: { allow: [{ templateId: 'Note:Note' }] } }
  const { id, token } = expectData(await scene.user.post('/delegated-sessions', body), 201)
  const execute = (asked: object) => scene.asDelegate(token, `/delegated-sessions/${id}/execute`, asked)
  await signNote(execute, author, key, key.device)
}

/** That there is the one wallet with its shares, told of once, and nothing secret beside them. */
async function expectWhole(scene: Scene): Promise<void> {
  expect(await scene.count('wallets')).toBe(1)
  expect(await scene.count('key_shares')).toBe(3)
  expect(await scene.count('key_shares where share_sealed is not null')).toBe(1)
  expect(await scene.count(`events where type = 'wallet.created'`)).toBe(1)
  expect(await scene.count(`events where type = 'wallet.ready'`)).toBe(1)
  expect(await scene.count('key_generations where state_sealed is not null or round2 is not null')).toBe(0)
}

describe.concurrent('a key generation whose service is killed', () => {
  it('between any two of its rounds goes on in another process', { timeout: TEST_MS }, async (context) => {
    const scene = await newScene(context)
    const { user } = scene
    const dkg = await beginDkg(user)
    await scene.replace()
    const body = await round2Body(user, dkg)
    const answer = await user.post(`${dkg.path}/round2`, body)
    const key = await finishDkg(dkg, expectData(answer, 200))
    await scene.replace()
    expect((await user.post(`${dkg.path}/round2`, body)).text).toBe(answer.text)
    const confirm = confirmBody(dkg, key)
    const { wallet } = expectData(await user.post(`${dkg.path}/confirm`, confirm), 201)
    await scene.replace()
    expect(expectData(await user.post(`${dkg.path}/confirm`, confirm), 201).wallet).toEqual(wallet)
    await expectWhole(scene)
    await expectTheySign(scene, wallet.partyId, key)
    expect(await scene.process.stop()).toEqual({ code: 0, signal: null })
  })

  it('in the midst of a round has not begun with it, and takes the same message again', {
    timeout: TEST_MS,
  }, async (context) => {
    const scene = await newScene(context)
    const { user } = scene
    const dkg = await beginDkg(user)
    const begun = expectData(await user.get(dkg.path), 200)
    const body = await round2Body(user, dkg)
    await scene.dieAt(STEPS.round2, `${dkg.path}/round2`, body)
    expect(expectData(await user.get(dkg.path), 200)).toEqual(begun)
    const key = await finishDkg(dkg, expectData(await user.post(`${dkg.path}/round2`, body), 200))
    const confirm = confirmBody(dkg, key)
    await scene.dieAt(STEPS.confirm, `${dkg.path}/confirm`, confirm)
    expect(expectData(await user.get(dkg.path), 200).status).toBe('round2')
    for (const table of ['wallets', 'key_shares']) expect(await scene.count(table)).toBe(0)
    const { wallet } = expectData(await user.post(`${dkg.path}/confirm`, confirm), 201)
    await expectWhole(scene)
    await expectTheySign(scene, wallet.partyId, key)
    expect(await scene.process.stop()).toEqual({ code: 0, signal: null })
  })
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect } from 'vitest'
import { eventually, type Service, startService } from '../../../../test/harness/harness.ts'
import { runCli } from '../../../operations/cli/cli.ts'
import type { Contract, Prepared } from '../../../platform/ports/ledger.ts'
import { embeddedStage } from '../embedded/embedded.fixture.ts'
import { declareTemplate } from '../embedded/template-catalogue.ts'
import { type Actor, createdId, exercise, issue, newActor, note, type Stage } from '../stage.fixture.ts'

/** A tenant's ledger with a past. */
export interface Scene {
  stage: Stage
  ada: Actor
  bob: Actor
  /** Of the first holding, which was used up. */
  first: string
  /** Of a holding that is active. */
  active: string
  count: number
  last: Prepared
}

/** Has a choice that does not use it up. */
const DRAWN = {
  templateId: 'Shop:Booth',
  fields: { shop: { type: 'party' as const } },
  signatories: ['shop'],
  choices: {
    // It does not use up the booth.
    Ring: {
      controllers: ['shop'],
      consuming: false,
      creates: [{ templateId: 'Note:Note', arguments: { author: { field: 'shop' }, text: { value: 'rung' } } }],
    },
    Close: { controllers: ['shop'] },
  },
}

/** A service with ledgers, and the command line on it. */
export function useLedgers() {
  let service: Service
  let folder: string
  let files = 0
  beforeAll(async () => {
    service = await startService()
    folder = mkdtempSync(join(tmpdir(), 'halfkey-ledger-'))
  })
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true })
    await service.stop()
  })

  /** A path in a temporary folder. */
  const newFile = () => {
    files += 1
    return join(folder, `ledger-${files}.jsonl`)
  }

  /** The command, in this process. `err`: empty unless it failed, for it also shows progress. */
  async function halfkey(...args: string[]) {
    const [out, err]: [string[], string[]] = [[], []]
    const exitCode = await runCli(args, {
      openDeps: async () => ({ deps: service.deps, close: async () => {} }),
      out: (line) => void out.push(line),
      err: (line) => void err.push(line),
    })
    return { exitCode, out, err: exitCode === 0 ? '' : err.join('\n') }
  }

  const sqlOf = (scene: Scene, text: string, values: unknown[] = []) =>
    service.sql(text, [scene.stage.tenantId, ...values])

  const headOf = async ({ stage: { tenantId } }: Pick<Scene, 'stage'>) => {
    const [row] = await service.sql<{ seq: number; hash: string }>(
      "select seq::int, encode(hash, 'hex') as hash from ledger_heads where tenant_id = $1",
      [tenantId],
    )
    return row
  }

  const chained = (scene: Pick<Scene, 'stage'>, count: number) =>
    eventually('all updates are in the chain', async () => (await headOf(scene))?.seq === count)

  /** Issues, transfers, splits, merges, a declared template: ten updates. */
  async function begun(): Promise<Scene> {
    const stage = await embeddedStage(service)
    const [ada, bob] = [await newActor(stage, 'ada'), await newActor(stage, 'bob')]
    await declareTemplate(stage.db, stage.tenantId, DRAWN, stage.now())
    const issued = await ada.run(issue(ada, ada, '100'))
    const first = createdId(issued.prepared)
    await ada.run(exercise(first, 'Transfer', { receiver: bob.party, amount: '40' }))
    const own = (of: Actor) =>
      of.contracts().then((all) => all.filter(({ arguments: { owner } }) => owner === of.party))
    const [bobs] = (await own(bob)) as [Contract]
    await bob.run(exercise(bobs.contractId, 'Split', { amount: '15' }))
    const parts = (await own(bob)).map(({ contractId }) => contractId)
    await bob.run(exercise(parts[0] as string, 'Merge', { contractIds: [parts[1] as string] }))
    const { prepared } = await ada.run({ create: { templateId: 'Shop:Booth', arguments: { shop: ada.party } } })
    const booth = createdId(prepared)
    await ada.run(exercise(booth, 'Ring', {}, 'Shop:Booth'), exercise(booth, 'Ring', {}, 'Shop:Booth'))
    await ada.run(exercise(booth, 'Close', {}, 'Shop:Booth'))
    await ada.run(note(ada, 'one'), note(ada, 'two', [bob.party]))
    await bob.run(note(bob, 'three'))
    const { prepared: last } = await ada.run(issue(ada, bob, '7'))
    const scene = { stage, ada, bob, first, active: createdId(last), count: 10, last }
    await chained(scene, scene.count)
    return scene
  }

  const verify = ({ stage }: Pick<Scene, 'stage'>, ...more: string[]) =>
    halfkey('ledger', 'verify', '--tenant', stage.tenantId, ...more)

  /** Exports a ledger. @returns the file */
  async function exported({ stage }: Pick<Scene, 'stage'>): Promise<string> {
    const file = newFile()
    const { exitCode, err } = await halfkey('ledger', 'export', '--tenant', stage.tenantId, '--out', file)
    expect(exitCode, err).toBe(0)
    return file
  }

  /** What the commands say of the database and of an export of it. */
  async function faults(scene: Scene): Promise<[online: string, offline: string]> {
    const online = await verify(scene)
    const offline = await halfkey('ledger', 'verify', '--offline', await exported(scene))
    return [online.err, offline.err]
  }

  return { service: () => service, newFile, halfkey, sqlOf, headOf, chained, begun, verify, exported, faults }
}

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { expectStatus, newSession } from '../../src/delegation/delegated.fixture.ts'
import { reconcileTransactions } from '../../src/delegation/remote/reconcile.ts'
import { onboardWallets } from '../../src/wallets/onboarding/onboarding.ts'
import { type Service, startService, type Tenant } from '../harness/harness.ts'
import { COIN, MEMO } from './daml.ts'
import { PARTICIPANT, SimulatedParticipant } from './participant.ts'
import { SYNCHRONIZER, USER_ID } from './sequenced.ts'

/** A party that is on another participant. */
export const ISSUER = `issuer::1220${'1e'.repeat(32)}`
export const BOB = `bob::1220${'b0'.repeat(32)}`

/** The settings of a simulated participant. */
export const settingsOf = (participant: SimulatedParticipant, more: object = {}) => ({
  url: participant.url,
  participant: PARTICIPANT,
  synchronizer: SYNCHRONIZER,
  userId: USER_ID,
  hashVersion: 'V3',
  auth: { type: 'none' },
  timeoutMs: 9_000,
  outcomeMs: 8_000,
  assets: [{ templateId: COIN, issuer: 'issuer', owner: 'owner', symbol: 'symbol', amount: 'amount' }],
  ...more,
})

/** Writes a settings file. @returns its path */
export function settingsFile(settings: object): string {
  const path = join(mkdtempSync(join(tmpdir(), 'halfkey-canton-')), 'canton.json')
  writeFileSync(path, JSON.stringify(settings))
  return path
}

export interface CantonService extends Service {
  participant: SimulatedParticipant
  /** What its steps do when they are reached. */
  steps: { [step: string]: (() => Promise<void>) | undefined }
  /** Has all transactions looked at that are due, as a worker would. */
  reconcile(): Promise<void>
}

/** A service with a simulated participant as its ledger `canton`, and without a worker. */
export async function startCanton(
  more: object | ((participant: SimulatedParticipant) => Promise<object>) = {},
  settings: Record<string, string> = {},
): Promise<CantonService> {
  const participant = await new SimulatedParticipant().start()
  const own = typeof more === 'function' ? await more(participant) : more
  const steps: CantonService['steps'] = {}
  const service = await startService(
    {
      HALFKEY_ROLE: 'api',
      HALFKEY_LEDGERS: `embedded,canton:${settingsFile(settingsOf(participant, own))}`,
      ...settings,
    },
    { failpoint: async (step) => steps[step]?.() },
  )
  participant.now = service.deps.now
  return {
    ...service,
    participant,
    steps,
    async reconcile() {
      while (await reconcileTransactions(service.deps));
    },
    async stop() {
      await service.stop()
      await participant.stop()
    },
  }
}

export interface CantonHolder {
  userId: string
  walletId: string
  party: string
  asUser: { headers: { 'x-user-id': string } }
  /** Gives the wallet a coin. @returns its contract id */
  receive(amount: string): string
}

/** A user, or a new one, with an embedded wallet whose party is on the participant. */
export async function newCantonHolder(service: CantonService, tenant: Tenant, user?: string): Promise<CantonHolder> {
  const userId = user ?? (expectStatus(await tenant.post('/users', {}), 201).id as string)
  const asUser = { headers: { 'x-user-id': userId } }
  const wallet = expectStatus(await tenant.post('/users/me/wallet', { ledger: 'canton' }, asUser), 201)
  await onboardWallets(service.deps)
  const { status, partyId: party } = expectStatus(await tenant.get('/users/me/wallet', asUser), 200)
  expect(status).toBe('ready')
  const receive = (amount: string) =>
    service.participant.mint(COIN, { issuer: ISSUER, owner: party, symbol: 'CC', amount })
  return { userId, walletId: wallet.id, party, asUser, receive }
}

/** Allows transfers of coins up to a cap. */
export const coins = (cap: string, more: object = {}) => ({
  allow: [
    { templateId: COIN, actions: ['exercise'], choices: ['Transfer'] },
    { templateId: MEMO, actions: ['create'] },
  ],
  spend: [{ asset: { issuer: ISSUER, symbol: 'CC' }, amount: cap }],
  query: { templateIds: [COIN, MEMO] },
  ...more,
})

/** A command that transfers a part of a coin. */
export const pay = (contractId: string, amount: string, receiver = BOB) => ({
  exercise: { templateId: COIN, contractId, choice: 'Transfer', arguments: { receiver, amount } },
})

/** The amounts of the coins that a party has on the ledger. */
export const coinsOf = ({ participant }: CantonService, owner: string): string[] =>
  participant
    .active(COIN, { owner })
    .map(({ fields }) => fields.amount as string)
    .sort()

/** Somebody with a coin and a session that may pay from it. */
export async function newScene(service: CantonService, tenant: Tenant, cap = '5', more: object = {}) {
  const ada = await newCantonHolder(service, tenant)
  const coin = ada.receive('10')
  const session = await newSession(service, tenant, ada, { policy: coins(cap, more), expiresInSeconds: 86_400 })
  const read = async () => expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  return {
    ada,
    coin,
    session,
    /** What is spent of the cap, reservations included. */
    spent: async () => (await read()).remaining.spend[0].spent as string,
    /** How much has left the wallet, as the participant says. */
    paid: () =>
      10 -
      service.participant
        .active(COIN, { owner: ada.party })
        .reduce((sum, { fields }) => sum + Number(fields.amount), 0),
  }
}

export type Scene = Awaited<ReturnType<typeof newScene>>

import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import { expect } from 'vitest'
import type { Db } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import {
  type Command,
  type Contract,
  type FollowableLedger,
  LedgerError,
  type LedgerErrorCode,
  type LedgerSignature,
  type Prepared,
  type Receipt,
} from '../../platform/ports/ledger.ts'
import { signatureOf } from '../../platform/ports/signature.ts'

/** Where an adapter shows that it keeps the port's promises. */
export interface Stage {
  ledger: FollowableLedger
  db: Db
  tenantId: Id<'ten'>
  /** A party in the namespace of the node's own key, for which `sign` signs. */
  nodeParty: string
  now(): Date
  /** Lets time pass. */
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

/** A party with its key, and its actions on the ledger. */
export interface Actor {
  party: string
  publicKey: Buffer
  sign(payload: Buffer): LedgerSignature[]
  prepare(commands: Command[], options?: { commandId?: string; lifetimeMs?: number }): Promise<Prepared>
  submit(prepared: Pick<Prepared, 'bytes' | 'payload'>, signatures?: LedgerSignature[]): Promise<Receipt>
  /** Prepares, signs, submits. */
  run(...commands: Command[]): Promise<{ prepared: Prepared; receipt: Receipt }>
  /** All of its contracts, newest first. */
  contracts(templateId?: string): Promise<Contract[]>
}

/** Default lifetime of a prepared transaction. */
export const LIFETIME_MS = 60_000

/** A new key, raw and for signing. */
export function newKeyPair(): { publicKey: Buffer; privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return { publicKey: publicKey.export({ type: 'spki', format: 'der' }).subarray(-32), privateKey }
}

/** What a party does on the ledger, however it signs. */
export function acting(stage: Stage, party: string): Omit<Actor, 'publicKey' | 'sign' | 'submit' | 'run'> {
  const { ledger, db, tenantId } = stage
  return {
    party,
    prepare: (commands, { commandId = randomUUID(), lifetimeMs = LIFETIME_MS } = {}) => {
      const now = stage.now()
      const expiresAt = new Date(now.getTime() + lifetimeMs)
      return ledger.prepare(db, { tenantId, commandId, actAs: party, commands, now, expiresAt })
    },
    async contracts(templateId = 'Token:Holding') {
      const found: Contract[] = []
      let cursor: string | null = null
      do {
        const page = await ledger.query(db, {
          tenantId,
          party,
          templateIds: [templateId],
          accept: null,
          limit: 7,
          cursor,
        })
        found.push(...page.contracts)
        cursor = page.nextCursor
      } while (cursor !== null)
      return found
    },
  }
}

/** A party with a new key, registered on the ledger. */
export async function newActor(stage: Stage, hint = 'ada'): Promise<Actor> {
  const { ledger, db, tenantId } = stage
  const { publicKey, privateKey } = newKeyPair()
  const party = ledger.deriveParty(hint, publicKey)
  const signer = (payload: Buffer) => [signatureOf(publicKey, sign(null, payload, privateKey))]
  const onboarding = await ledger.prepareOnboarding(tenantId, hint, publicKey)
  expect(onboarding.party).toBe(party)
  await ledger.completeOnboarding(
    tenantId,
    onboarding,
    onboarding.toSign.flatMap(({ payload }) => signer(payload)),
  )
  const actor: Actor = {
    ...acting(stage, party),
    publicKey,
    sign: signer,
    submit: ({ bytes, payload }, signatures = signer(payload)) =>
      ledger.submit(db, tenantId, bytes, signatures, stage.now()),
    async run(...commands) {
      const prepared = await actor.prepare(commands)
      return { prepared, receipt: await actor.submit(prepared) }
    },
  }
  return actor
}

/** A command that issues a holding. */
export const issue = (issuer: Actor, owner: { party: string }, amount: string, symbol = 'USDX'): Command => ({
  create: { templateId: 'Token:Holding', arguments: { issuer: issuer.party, owner: owner.party, symbol, amount } },
})

/** A command that exercises a choice of a holding, or of another template's contract. */
export const exercise = (
  contractId: string,
  choice: string,
  given: Record<string, string | string[]> = {},
  templateId = 'Token:Holding',
): Command => ({ exercise: { templateId, contractId, choice, arguments: given } })

/** A command that writes a note. */
export const note = (author: { party: string }, text: string, readers: string[] = []): Command => ({
  create: { templateId: 'Note:Note', arguments: { author: author.party, text, readers } },
})

/** The id of the n-th contract that a transaction creates. */
export const createdId = (prepared: Prepared, n = 0): string =>
  prepared.effects.filter((effect) => effect.type === 'created')[n]?.contractId as string

/** That a ledger refuses for good with one of these codes: a `LedgerError` that says that nothing happened. */
export async function refusal(attempt: () => unknown, ...codes: LedgerErrorCode[]): Promise<LedgerError> {
  const error = await Promise.resolve()
    .then(attempt)
    .then(
      () => null,
      (thrown: unknown) => thrown,
    )
  expect(error, `not refused with ${codes}`).toBeInstanceOf(LedgerError)
  const refused = error as LedgerError
  expect(codes, refused.message).toContain(refused.code)
  expect(refused).toMatchObject({ definite: true, retryable: false, message: expect.stringMatching(/\S/) })
  return refused
}

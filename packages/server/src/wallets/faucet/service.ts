import { findUserRecord } from '../../identity/users/service.ts'
import type { Deps } from '../../platform/deps.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import type { Caller } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { type Ledger, LedgerError } from '../../platform/ports/ledger.ts'
import { namespaceOf } from '../../platform/ports/party.ts'
import { findWalletOf } from '../wallets/service.ts'
import type { Drip, Dripped } from './schema.ts'

const HOLDING = 'Token:Holding'
const ISSUER_HINT = 'issuer'
const PREPARED_MS = 60_000

/** The recipient, a user or a guest, and the namespace of the tenant's parties. @throws not_found (names `userId`) */
async function ownerOf(deps: Deps, caller: Caller, userId: string): Promise<{ party: string; namespace: string }> {
  const user = isId('usr', userId) ? await findUserRecord(deps, caller.tenantId, userId) : undefined
  if (user === undefined || (caller.appId !== null && user.appId !== caller.appId)) throw notFoundField('userId')
  const wallet = await findWalletOf(deps.db, caller.tenantId, user.id as Id<'usr'>)
  if (wallet !== undefined && wallet.ledger !== 'embedded')
    throw invalid('userId', `This user's wallet is on the ledger ${wallet.ledger}, which has no faucet.`)
  return { party: wallet?.party_id ?? user.partyId, namespace: namespaceOf(user.partyId) }
}

/**
 * Issues tokens from the tenant's issuer party, in development only. Emits no `tx.*` event.
 * @throws not_found (names `userId`), validation_failed (names `amount`)
 */
export async function drip(deps: Deps, caller: Caller, { userId, symbol, amount }: Drip): Promise<Dripped> {
  const owner = await ownerOf(deps, caller, userId)
  const ledger = deps.ledgers.get('embedded') as Ledger
  const issuer = `${ISSUER_HINT}::${owner.namespace}`
  const { tenantId } = caller
  const now = deps.now()
  const command = { create: { templateId: HOLDING, arguments: { issuer, owner: owner.party, symbol, amount } } }
  return deps.db
    .tx(async (tx) => {
      const expiresAt = new Date(now.getTime() + PREPARED_MS)
      const request = {
        tenantId,
        commandId: `faucet/${newId('tx')}`,
        actAs: issuer,
        commands: [command],
        now,
        expiresAt,
      }
      const prepared = await ledger.prepare(tx, request)
      const signatures = await ledger.sign(tx, tenantId, issuer, prepared.payload)
      const { updateId, offset } = await ledger.submit(tx, tenantId, prepared.bytes, signatures, now)
      const [made] = prepared.effects
      if (made === undefined) throw new Error('the faucet issued nothing')
      const { amount: issued } = made.arguments as { amount: string }
      const { contractId, templateId } = made
      return { contractId, templateId, issuer, owner: owner.party, symbol, amount: issued, updateId, offset }
    })
    .catch((error: unknown): never => {
      // The caller sends only an amount and a symbol, so the field is one of them.
      if (error instanceof LedgerError && error.code === 'arguments_invalid')
        throw invalid(error.field?.split('.').at(-1) ?? '', error.message)
      throw error
    })
}

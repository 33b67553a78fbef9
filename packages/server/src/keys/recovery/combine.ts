import type { Deps } from '../../platform/deps.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { getApp } from '../../tenancy/apps/service.ts'
import type { SealedToClient } from '../../wallets/custody/schema.ts'
import {
  asRefusal,
  encryptionKeyBytes,
  openFromClient,
  openShare,
  sealToClient,
} from '../../wallets/custody/service.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { attempt, findRecoverable, recordExport } from './attempt.ts'
import type { KeyWallet } from './challenge.ts'
import { fail } from './errors.ts'
import { replyOf, type With } from './messages.ts'
import type { Recovery } from './schema.ts'
import { type KnownShares, knownShares, recordShareUse } from './shares.ts'

const FORMAT = 'ed25519-scalar-le'

/** The service may know this key for a moment. @throws custody_violation */
async function requireCombining(deps: Deps, { caller, user }: Call, wallet: KeyWallet): Promise<void> {
  const refuse = (message: string) => fail('custody_violation', [{ code: 'custody_violation', message }])
  if (wallet.custody === 'shared')
    throw refuse(
      'The service never combines the key of a shared wallet. Use `release`, and combine the shares yourself.',
    )
  const { recovery } = await getApp(deps, caller, user.appId)
  if (!recovery.serverCombine)
    throw refuse('This app does not let the service combine keys. See its setting `recovery.serverCombine`.')
}

/** Opens the shares that the client sent, into `opened`. Fill their scalars with zeros after use. */
async function openShares(
  deps: Deps,
  subject: threshold.Subject,
  { rows }: KnownShares,
  { shares: sealed, recipientPublicKey }: With<'shares' | 'recipientPublicKey'>,
  opened: threshold.Share[],
): Promise<void> {
  const answerKey = encryptionKeyBytes(recipientPublicKey).toString('hex')
  for (const [at, { index, holder: said, ...box }] of sealed.entries()) {
    const known = rows.find((row) => row.index === index)?.holder
    const holder = said ?? known ?? threshold.INDEX_HOLDER[index] ?? 'recovery'
    const scalar = await openFromClient(deps.db, deps, box, {
      purpose: 'recover',
      contextOf: (recipientKey) => threshold.combineContext(subject, { index, holder, recipientKey, answerKey }),
      field: `shares.${at}`,
    })
    opened.push({ index, scalar })
  }
}

interface Combined {
  known: KnownShares
  generation: number
  sealedKey: SealedToClient
}

async function sealKey(
  deps: Deps,
  wallet: KeyWallet,
  subject: threshold.Subject,
  input: With<'shares' | 'recipientPublicKey'>,
): Promise<Combined> {
  const known = await knownShares(deps, wallet, subject.generation)
  const { sharing, rows, kept } = known
  if (rows.length === 0) throw fail('share_missing')
  const shares: threshold.Share[] = []
  let key: Uint8Array | undefined
  try {
    await openShares(deps, subject, known, input, shares)
    for (const row of kept) shares.push(await openShare(deps, row, wallet.custody))
    key = await deps.threads.runAlone('joinShares', sharing, shares).catch((error: unknown) => {
      throw asRefusal(error, 'shares')
    })
    const recipient = encryptionKeyBytes(input.recipientPublicKey)
    const context = { ...subject, format: FORMAT, recipientKey: recipient.toString('hex') }
    const of = { purpose: 'recover' as const, context, field: 'recipientPublicKey' }
    return { known, generation: subject.generation, sealedKey: await sealToClient(recipient, of, key) }
  } finally {
    for (const { scalar } of shares) scalar.fill(0)
    key?.fill(0)
  }
}

/**
 * Combines a self-custody key from the client's shares and the service's, in a thread that ends afterwards, and returns
 * it sealed. @throws what `attempt` throws, custody_violation, share_missing, seal_invalid, share_invalid,
 * shares_insufficient, validation_failed
 */
export async function combine(
  deps: Deps,
  call: Call,
  input: With<'challengeId' | 'shares' | 'recipientPublicKey'>,
): Promise<Recovery> {
  const wallet = await findRecoverable(deps, call, input.walletId)
  await requireCombining(deps, call, wallet)
  return attempt<Combined>(deps, call, {
    wallet,
    mode: 'combine',
    challengeId: input.challengeId,
    generation: input.generation,
    work: (subject) => sealKey(deps, wallet, subject, input),
    async effect(tx, locked, { known, generation, sealedKey }) {
      await recordShareUse(tx, deps, known.kept)
      await recordExport(tx, deps, call, locked, 'combine')
      return replyOf('combine', locked, generation, known.sharing, { sealedKey: { format: FORMAT, ...sealedKey } })
    },
  })
}

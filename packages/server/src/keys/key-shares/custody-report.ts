import { findWaysIn, type WaysIn } from '../../identity/identities/service.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Caller } from '../../platform/http/route.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { isLive, isOpenable, isStored, type ShareRow, sharesOf } from '../../wallets/custody/service.ts'
import { getWalletRow, type WalletRow } from '../../wallets/wallets/service.ts'
import { currentGeneration } from './own-wallet.ts'
import type { WalletCustody } from './schema.ts'

type CanSign = WalletCustody['canSign']

const { server, device, recovery } = threshold.HOLDER_INDEX

function openableBy(row: ShareRow): WalletCustody['shares'][number]['openableBy'] {
  if (row.share_sealed !== null) return 'service'
  if (row.client_ciphertext === null) return 'holder'
  return isOpenable(row) ? 'password' : 'user'
}

const listed = (rows: readonly ShareRow[]) => rows.map(({ index }) => index).join(', ')

/** Who can sign with a key in three shares. `rows` are the live shares of its generation, `deleted` the deleted ones. */
function sharedSigners(wallet: WalletRow, rows: readonly ShareRow[], deleted: readonly ShareRow[]): CanSign {
  const has = (index: number) => rows.some((row) => row.index === index)
  const had = (index: number) => has(index) || deleted.some((row) => row.index === index)
  const users = rows.filter(({ index }) => index !== server)
  const signs: CanSign = []
  if (rows.some((row) => row.index === server && isStored(row)))
    signs.push({
      who: 'service_and_user',
      how: `Share ${server} of the service with share ${users.length === 1 ? listed(users) : `${device} or ${recovery}`} of the user.`,
    })
  if (has(device) && has(recovery))
    signs.push({ who: 'user', how: `Shares ${device} and ${recovery}, combined without the service.` })
  // Holders of shares still have them after the records are deleted.
  else if (had(device) && had(recovery))
    signs.push({
      who: 'user',
      how: `Shares ${device} and ${recovery}, if their holders have kept them: the records were deleted.`,
    })
  if (wallet.exported_at !== null)
    signs.push({
      who: 'anyone_with_export',
      how: `The service released its share on ${wallet.exported_at.toISOString()}. With one other share it makes the key.`,
    })
  if (wallet.key_origin === 'client_dealt')
    signs.push({ who: 'user', how: 'The client that split the key had the whole key, and may have kept it.' })
  return signs
}

/** Who can sign with a key that the user has. */
function ownSigners(wallet: WalletRow, rows: readonly ShareRow[]): CanSign {
  const signs: CanSign = [{ who: 'user', how: 'The key itself, which the user has.' }]
  const needed = rows[0]?.threshold ?? Number.POSITIVE_INFINITY
  const kept = rows.filter(isStored)
  if (kept.length >= needed)
    signs.push({
      who: 'user',
      how: `${needed} of the shares ${listed(kept)} that are stored here, combined by their user.`,
    })
  if (wallet.exported_at !== null)
    signs.push({
      who: 'anyone_with_export',
      how: `The service released enough to make the key on ${wallet.exported_at.toISOString()}.`,
    })
  return signs
}

function signersOf(wallet: WalletRow, rows: readonly ShareRow[], deleted: readonly ShareRow[]): CanSign {
  if (wallet.custody === 'shared') return sharedSigners(wallet, rows, deleted)
  if (wallet.custody === 'self_custody') return ownSigners(wallet, rows)
  return [{ who: 'service', how: 'The tenant’s ledger-node key, which the service stores encrypted.' }]
}

type CanSignIn = WalletCustody['canSignIn'][number]

/** Who could sign in as the user. What an issuer, a mailbox or an external wallet vouches for reaches no share where the account has something stronger. */
function signInsOf({
  issuers,
  messenger,
  email,
  externalWallet,
  recoveryHours,
  passkeys,
  secondFactor,
}: WaysIn): CanSignIn[] {
  const isStrong = passkeys > 0 || secondFactor
  const byIssuer = (issuer: string): CanSignIn => ({
    who: 'issuer',
    issuer,
    reachesKey: !isStrong,
    how: `A token of ${issuer}${isStrong ? ' and a passkey or the second factor' : ', which can make one for itself'}.`,
  })
  const byEmail: CanSignIn = {
    who: 'email',
    issuer: null,
    reachesKey: !isStrong,
    how: `A code sent to the user’s email address${isStrong ? ' and a passkey or the second factor' : ''}.`,
  }
  const byWallet: CanSignIn = {
    who: 'external_wallet',
    issuer: null,
    reachesKey: !isStrong,
    how: `A signature by the key of an external wallet of the user${isStrong ? ' and a passkey or the second factor' : ''}.`,
  }
  const isRecovered = email && recoveryHours !== null && passkeys > 0 && !secondFactor
  const byRecovery: CanSignIn = {
    who: 'email_recovery',
    issuer: null,
    reachesKey: true,
    how: `A new passkey, by codes sent to the user’s email address ${recoveryHours} hours apart, unless the user cancels it meanwhile.`,
  }
  const own = (who: 'passkey' | 'messenger', how: string): CanSignIn => ({ who, issuer: null, reachesKey: true, how })
  return [
    ...(passkeys > 0 ? [own('passkey', 'A passkey of the user.')] : []),
    ...(messenger ? [own('messenger', 'The account of the user at the messenger.')] : []),
    ...(email ? [byEmail] : []),
    ...(isRecovered ? [byRecovery] : []),
    ...(externalWallet ? [byWallet] : []),
    ...issuers.map(byIssuer),
  ]
}

const NO_WAYS: WaysIn = {
  issuers: [],
  messenger: false,
  email: false,
  externalWallet: false,
  recoveryHours: null,
  passkeys: 0,
  secondFactor: false,
}

const NOT_SERVICE = 'The service could open enough shares to sign alone.'

/** Who can currently sign with a wallet's key or rebuild it, according to the records. @throws not_found */
export async function walletCustody(deps: Deps, caller: Caller, id: string): Promise<WalletCustody> {
  const wallet = await getWalletRow(deps, caller, id)
  const all = await sharesOf(deps.db, wallet.tenant_id, wallet.id)
  const generation = currentGeneration(wallet, all) ?? wallet.generation
  const rows = all.filter((row) => isLive(row) && row.generation === generation)
  const first = rows[0]
  const whole = first !== undefined && rows.filter(isOpenable).length >= first.threshold
  const deleted = all.filter((row) => row.status === 'deleted' && row.generation === generation)
  const canSign = signersOf(wallet, rows, deleted)
  if (whole) canSign.push({ who: 'service', how: NOT_SERVICE })
  const ways = (await findWaysIn(deps.db, wallet.tenant_id, wallet.user_id)) ?? NO_WAYS
  const living = new Set(all.filter(isLive).map((row) => row.generation))
  return {
    walletId: wallet.id,
    custody: wallet.custody,
    keyOrigin: wallet.key_origin,
    publicKey: wallet.public_key?.toString('hex') ?? null,
    status: wallet.frozen_at === null ? wallet.status : 'frozen',
    generation,
    threshold: first?.threshold ?? wallet.threshold,
    total: first?.total ?? wallet.total,
    exportedAt: wallet.exported_at?.toISOString() ?? null,
    shares: rows.map((row) => ({
      index: row.index,
      holder: row.holder,
      protection: row.protection,
      status: row.status,
      stored: isStored(row),
      openableBy: openableBy(row),
    })),
    canSign,
    canSignIn: signInsOf(ways),
    serviceAlone: canSign.some(({ who }) => who === 'service'),
    userAlone: canSign.some(({ who }) => who === 'user' || who === 'anyone_with_export'),
    generationsDestroyed: new Set(all.map((row) => row.generation).filter((each) => !living.has(each))).size,
  }
}

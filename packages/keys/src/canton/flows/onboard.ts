import { type Bytes, fromHex, toHex } from '../../bytes.ts'
import { commitNonces } from '../../cosign.ts'
import { ShareError } from '../../errors.ts'
import type { WireCommitments } from '../../flows/api.ts'
import { bytesOf, signTogether, wireCommitments } from '../../flows/execute.ts'
import { CantonError } from '../errors.ts'
import { checkOnboarding, type Host, hostsIn } from '../topology.ts'
import { isShare, type WalletKey } from './key.ts'

/** How far a wallet's party is, as the API returns it. */
export interface WireOnboarding {
  partyId: string
  state: 'pending' | 'signature_required' | 'ready' | 'failed'
  /** Base64, while a signature is required. */
  prepared: string | null
  toSign: { payload: string }[]
  coSignatures: { serverCommitments: WireCommitments; serverSignatureShare: string }[] | null
}

/** The calls of the wallet's user. A client of `@halfkey/sdk` has them. */
export interface OnboardingApi {
  wallets: {
    onboarding(id: string): Promise<WireOnboarding>
    signOnboarding(
      id: string,
      body: { commitments: WireCommitments[] } | { signatures: string[] },
    ): Promise<WireOnboarding>
  }
}

/** What a wallet's key is to sign so that its party exists: read out of the topology transactions, and nothing else. */
export interface OnboardingView {
  party: string
  /** The participant that hosts the party, and confirms for it. There is no other. */
  participant: string
  /** What the key signs: 34 bytes, computed here. */
  payload: Bytes
  /** The same in sentences, for a person. */
  words: string[]
}

/** What is expected of a party. */
export interface ExpectedParty {
  /** `<hint>::<fingerprint of the key>`, as the wallet says. */
  party: string
  /** The wallet's public key, hex. */
  publicKey: string
  /** The participant that may host the party. Without it, any one participant may: ask a person about `participant`. */
  participant?: string | undefined
}

function transactionsIn(prepared: string): Bytes[] {
  try {
    const { transactions } = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytesOf(prepared)))
    return transactions.map((each: string) => bytesOf(each))
  } catch {
    throw new CantonError('malformed', 'this is not what a key signs for a party')
  }
}

/**
 * Reads what a wallet's key is to sign for its party. It must make this party exist, with this key as its only one, on one
 * participant, and do nothing else. @param prepared base64, as in the API's answer
 * @throws CantonError `topology_mismatch` if it does something else; `malformed`, `unsupported`, `too_large` if it cannot be read
 */
export function readOnboarding(prepared: string, { party, publicKey, participant }: ExpectedParty): OnboardingView {
  const transactions = transactionsIn(prepared)
  const hosts: Host[] =
    participant === undefined ? hostsIn(transactions) : [{ uid: participant, permission: 'confirmation' }]
  const [host] = hosts
  if (host === undefined || hosts.length > 1)
    throw new CantonError(
      'topology_mismatch',
      `${hosts.length} participants would host the party, and only one may: ${hosts.map(({ uid }) => uid).join(', ')}`,
    )
  const payload = checkOnboarding(transactions, { party, publicKey: fromHex(publicKey), hosts, threshold: 1 })
  return {
    party,
    participant: host.uid,
    payload,
    words: [
      `Creates the party ${party}.`,
      'Only the key of your wallet can act for it.',
      `The participant ${host.uid} hosts it: it sees the party’s contracts and confirms its transactions, but cannot sign for it.`,
    ],
  }
}

/** How to sign for a party. */
export interface SignedOnboarding {
  key: WalletKey
  /** Id of the participant that may host the party, known from elsewhere than this service, or `approve`. */
  participant?: string
  /** Asks the person, and throws to refuse. It is called after everything was checked. */
  approve?(view: OnboardingView): void | Promise<void>
}

/**
 * Signs for the party of the user's own wallet, with a share and the service, or with the user's own key. Everything that is signed is
 * read and checked here first. Does nothing unless the state is `signature_required`. After it, the party is there soon:
 * the event `wallet.ready`, or `state`, says when.
 * @returns the wallet's state
 * @throws CantonError for a topology that says something else, or another hash; ShareError for an invalid part of the service;
 * what `approve` and the calls throw
 */
export async function signOnboarding<Api extends OnboardingApi>(
  api: Api,
  { key, participant, approve }: SignedOnboarding,
): Promise<Awaited<ReturnType<Api['wallets']['onboarding']>>> {
  type Answer = Awaited<ReturnType<Api['wallets']['onboarding']>>
  if (participant === undefined && approve === undefined)
    throw new CantonError('topology_mismatch', 'give `participant`, or a function `approve` that asks about it')
  const { walletId, publicKey } = key
  const waiting = await api.wallets.onboarding(walletId)
  if (waiting.state !== 'signature_required' || waiting.prepared === null) return waiting as Answer
  const view = readOnboarding(waiting.prepared, { party: waiting.partyId, publicKey, participant })
  const [asked, ...others] = waiting.toSign
  if (others.length > 0 || asked?.payload !== toHex(view.payload))
    throw new CantonError('hash_mismatch', 'the service asks for a signature over something else than the topology')
  await approve?.(view)
  const signature = isShare(key) ? await together(api, key, view) : toHex(await key.sign(view.payload))
  return (await api.wallets.signOnboarding(walletId, { signatures: [signature] })) as Answer
}

/** A signature by a share and the service. */
async function together(
  api: OnboardingApi,
  held: Extract<WalletKey, { share: unknown }>,
  { payload }: OnboardingView,
): Promise<string> {
  const mine = commitNonces(held.share, [payload])
  const { coSignatures } = await api.wallets.signOnboarding(held.walletId, {
    commitments: [wireCommitments(mine.commitments)],
  })
  const [theirs] = coSignatures ?? []
  if (theirs === undefined) throw new ShareError('protocol_violated', 'The service returned no part of the signature.')
  return signTogether(held, mine, theirs, payload)
}

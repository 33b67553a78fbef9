import type { Holder, Subject } from '../protocol.ts'

/** A box as the wire has it: base64url. */
export interface WireSealed {
  enc: string
  ct: string
}

/** FROST's commitments as the wire has them: hex. */
export interface WireCommitments {
  index: number
  hiding: string
  binding: string
}

/** A first message of key generation as the wire has it: hex. */
export interface WireRound1 {
  index: number
  commitments: string[]
  proofOfKnowledge: string
}

/** What of a wallet matters here. */
export interface WireWallet {
  id: string
  appId: string
  userId: string
  /** Where what is sent to the wallet goes: `<hint>::<fingerprint of the key>`. */
  partyId: string
  publicKey: string | null
  generation: number | null
}

/** A dealing of the service's in a resharing. */
export interface WireDealing {
  from: number
  commitments: string[]
  proof: string
  sealedSubshares: (WireSealed & { to: number })[]
}

/** An execution, and what it waits for. */
export interface WireExecution {
  transactionId: string | null
  commandId: string
  status: string
  signingRequest: {
    id: string
    preparedTransaction: string
    serverCommitments: WireCommitments | null
    serverSignatureShare: string | null
  } | null
}

/** What a recovery is asked with, step by step. */
type RecoverBody =
  | {
      walletId: string
      mode: 'release'
      challengeId: string
      proofs: { index: number; proof: string }[]
      recipientPublicKey: string
    }
  | {
      walletId: string
      mode: 'reshare'
      challengeId: string
      set: number[]
      participants: { index: number; holder: 'device' | 'recovery'; encryptionKey: string }[]
      dealings: { from: number; commitments: string[]; proof: string; sealedSubshare: WireSealed & { kid: string } }[]
      commitments: WireCommitments
    }
  | {
      walletId: string
      mode: 'reshare'
      reshareId: string
      signature: string
      proofs: { index: number; proof: string }[]
    }

/** What a step of a recovery answers; null what is not of it. */
export interface WireRecovery {
  generation: number
  index: number | null
  holder: Holder | null
  sealedShare: WireSealed | null
  reshareId: string | null
  dealings: WireDealing[] | null
  transcriptHash: string | null
  serverCommitments: WireCommitments | null
  serverSignatureShare: string | null
}

/**
 * The calls that the flows make: what `createClient` of `@halfkey/sdk` makes for the current user has them all, and this
 * package needs nothing else of it.
 */
export interface KeyApi<Wallet extends WireWallet = WireWallet> {
  mpc: {
    config(): Promise<{ tenantId: string; keys: { kid: string; publicKey: string }[] }>
    startDkg(body: {
      ledger?: string
      participants: { index: number; holder: 'device' | 'recovery'; encryptionKey: string }[]
      round1: WireRound1[]
    }): Promise<{ dkgId: string; walletId: string; subject: Subject; round1: WireRound1; transcriptHash: string }>
    dkgRound2(
      dkgId: string,
      body: {
        sealedSubshares: (WireSealed & { from: number; to: number; kid: string })[]
        transcriptHash: string
      },
    ): Promise<{ sealedSubshares: (WireSealed & { from: number; to: number })[]; transcriptHash: string }>
    confirmDkg(
      dkgId: string,
      body: {
        publicKey: string
        verifyingShares: { index: number; verifyingShare: string }[]
        proofs: { index: number; proof: string }[]
        transcriptHash: string
      },
    ): Promise<{ wallet: Wallet }>
    challenge(body: {
      walletId: string
      purpose: 'release' | 'combine' | 'reshare'
    }): Promise<{ challengeId: string; subject: Subject }>
    recover(body: RecoverBody): Promise<WireRecovery>
  }
}

/** The calls of a delegate, by the session's token. */
export interface DelegateApi<Command, Execution extends WireExecution = WireExecution> {
  delegatedSessions: {
    execute(
      id: string,
      body:
        | { commandId: string; commands: Command[]; commitments: WireCommitments }
        | { signingRequestId: string; signature: string },
    ): Promise<Execution>
  }
}

import type { Holder, Subject } from '../protocol.ts'
import type { ServiceTrust } from './pin.ts'

/** A box as the API writes it: base64url. */
export interface WireSealed {
  enc: string
  ct: string
}

/** FROST's commitments as the API writes them: hex. */
export interface WireCommitments {
  index: number
  hiding: string
  binding: string
}

/** A first message of key generation as the API writes it: hex. */
export interface WireRound1 {
  index: number
  commitments: string[]
  proofOfKnowledge: string
}

/** The answer of `GET /mpc/config`. */
export interface ServiceConfig {
  suite: string
  tenantId: string
  /** Newest first. */
  keys: { kid: string; publicKey: string; notAfter: string }[]
  /** Missing in answers of services that have no identity key. */
  identity?:
    | {
        publicKey: string
        signature: string
        notAfter: string
        previous?: { publicKey: string; signature: string } | null | undefined
      }
    | undefined
}

/** The used fields of a wallet. */
export interface WireWallet {
  id: string
  appId: string
  userId: string
  /** The wallet's address on the ledger: `<hint>::<fingerprint of the key>`. */
  partyId: string
  publicKey: string | null
  generation: number | null
}

/** The service's dealing in a resharing. */
export interface WireDealing {
  from: number
  commitments: string[]
  proof: string
  sealedSubshares: (WireSealed & { to: number })[]
}

/** An execution, and the signature that it waits for. */
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

/** The requests of a recovery, one for each step. */
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

/** The response to a step of a recovery. Fields of other steps are null. */
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
 * The calls that the flows make. A client of `@halfkey/sdk` for the current user has all of them. This package uses
 * nothing else of it.
 */
export interface KeyApi<Wallet extends WireWallet = WireWallet> {
  mpc: {
    /** By what the service is recognised. Flows that send shares refuse without it. */
    readonly trust?: ServiceTrust | undefined
    config(): Promise<ServiceConfig>
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

/** The calls of a delegate, with the session's token. */
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

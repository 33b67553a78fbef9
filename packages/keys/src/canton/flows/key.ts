import type { Bytes } from '../../bytes.ts'
import type { HeldShare } from '../../flows/held-share.ts'

/** A key that only its user has. */
export interface OwnKey {
  walletId: string
  /** The wallet's public key, hex. */
  publicKey: string
  /** Signs with Ed25519 (RFC 8032): 64 bytes. It may ask a person, or a device. */
  sign(message: Bytes): Uint8Array | Promise<Uint8Array>
}

/** A wallet's key on this side: a share of it for `shared` wallets, or all of it for `self_custody`. */
export type WalletKey = HeldShare | OwnKey

/** Whether the service signs with this side. */
export const isShare = (key: WalletKey): key is HeldShare => 'share' in key

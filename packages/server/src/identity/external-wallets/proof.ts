import { ed25519 } from '@noble/curves/ed25519.js'
import { secp256k1 } from '@noble/curves/secp256k1.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import type { WalletType } from '../../tenancy/apps/external-wallets-schema.ts'
import { addressOf, isSoundKey } from './address.ts'

const RECOVERED_BYTES = 65
const ED25519_BYTES = 64

/** The hash that wallets sign for a text: `personal_sign`, version 0x45 of EIP-191. */
export function personalHash(message: Uint8Array): Uint8Array {
  const prefix = Buffer.from(`\x19Ethereum Signed Message:\n${message.length}`)
  return keccak_256(Buffer.concat([prefix, message]))
}

/** Which of the two points a signature stands for: its last byte is 27 or 28, from some devices 0 or 1. */
const PARITY = new Map([
  [0, 0],
  [1, 1],
  [27, 0],
  [28, 1],
])

/**
 * The address whose key has signed a text: 65 bytes r, s, v. Undefined for what is no signature, and for the second form that
 * every signature has, with a high s (EIP-2). No contract is asked (EIP-1271): only accounts with a key can sign in.
 */
export function signerOf(message: Uint8Array, signature: Uint8Array): string | undefined {
  const parity = PARITY.get(signature[RECOVERED_BYTES - 1] ?? -1)
  if (signature.length !== RECOVERED_BYTES || parity === undefined) return undefined
  try {
    const rs = secp256k1.Signature.fromBytes(signature.subarray(0, RECOVERED_BYTES - 1), 'compact')
    if (rs.hasHighS()) return undefined
    return addressOf(rs.addRecoveryBit(parity).recoverPublicKey(personalHash(message)).toBytes(false))
  } catch {
    return undefined
  }
}

/** Whether an Ed25519 signature (RFC 8032, pure) is valid by the strict rules, under which one signature has one form. */
function isSignedByKey(publicKey: string, message: Uint8Array, signature: Uint8Array): boolean {
  if (signature.length !== ED25519_BYTES || !isSoundKey(publicKey)) return false
  try {
    return ed25519.verify(signature, message, Buffer.from(publicKey, 'hex'), { zip215: false })
  } catch {
    return false
  }
}

/** The bytes of a signature: hexadecimal with or without `0x`, or base64. */
function signatureBytes(text: string): Buffer {
  const hex = text.startsWith('0x') ? text.slice(2) : text
  return /^(?:[0-9a-fA-F]{2})+$/.test(hex) ? Buffer.from(hex, 'hex') : Buffer.from(text, 'base64')
}

/** Whether the holder of a key has signed a text. `subject` is the address with its checksum, or the public key. */
export function isSignedBy(
  { type, subject }: { type: WalletType; subject: string },
  message: string,
  signature: string,
): boolean {
  const text = Buffer.from(message)
  const bytes = signatureBytes(signature)
  return type === 'eip4361' ? signerOf(text, bytes) === subject : isSignedByKey(subject, text, bytes)
}

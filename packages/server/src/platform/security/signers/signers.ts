import { randomBytes } from 'node:crypto'
import { isSignedBy } from '../../ports/signature.ts'
import { KeyServiceAddressError, KeyServiceError } from '../key-services/key-service.ts'
import { openPkcs11Key, type RemoteKey } from './pkcs11-signer.ts'
import type { Signer } from './signer.ts'

/** What a remote key may sign: access tokens, what clients pin, or checkpoints of audit logs. */
const SIGNER_USES = ['token', 'identity', 'checkpoint'] as const
export type SignerUse = (typeof SIGNER_USES)[number]

/** A key that `HALFKEY_SIGNERS` names. */
export interface SignerAddress {
  use: SignerUse
  /** `pkcs11:…`, without a secret. */
  address: string
}

const FORM =
  'a list of <use>:pkcs11:token=<token>;object=<key>?module-path=<library>&pin-source=<file>, separated by spaces, where a use is token, identity or checkpoint'

/**
 * Reads `HALFKEY_SIGNERS`: keys that stay outside, by use. Of several for one use, rotations change to the first, and all sign.
 * @throws Error whose message completes "HALFKEY_SIGNERS must be …"
 */
export function readSigners(text: string): SignerAddress[] {
  return text
    .split(/\s+/)
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf(':')
      const [use, address] = [part.slice(0, at), part.slice(at + 1)]
      if (!SIGNER_USES.includes(use as SignerUse) || !address.startsWith('pkcs11:')) throw new Error(FORM)
      try {
        openPkcs11Key(address.slice('pkcs11:'.length)).close()
      } catch (error) {
        if (error instanceof KeyServiceAddressError) throw new Error(`${FORM}: ${error.message}`)
        throw error
      }
      return { use: use as SignerUse, address }
    })
}

/** A setting's text, unless it is no such list. @throws Error whose message completes "HALFKEY_SIGNERS must be …" */
export function signerAddresses(text: string): string {
  readSigners(text)
  return text
}

/** The keys outside this process that it may sign with. They are asked when they are needed, not before. */
export interface Signers {
  /** The addresses for a use, in order. */
  named(use: SignerUse): readonly string[]
  /** The key that a rotation changes to; null where none is named for this use. @throws KeyServiceError */
  first(use: SignerUse): Promise<Signer | null>
  /** The named key with this public half (raw). @throws KeyServiceError */
  find(use: SignerUse, publicKey: Buffer): Promise<Signer>
  close(): void
}

/**
 * The key that a rotation changes to, after it has shown that it signs; null where none is named for this use.
 * @throws KeyServiceError
 */
export async function newRemoteKey(signers: Signers, use: SignerUse): Promise<Signer | null> {
  const signer = await signers.first(use)
  await signer?.sign(Buffer.from(`halfkey/v1/signer-check ${randomBytes(32).toString('hex')}`))
  return signer
}

/** A named key: what it is at its first use, and again after it has signed as another key. */
function createSlot(address: string) {
  const key: RemoteKey = openPkcs11Key(address.slice('pkcs11:'.length))
  let known: Signer | undefined

  async function open(): Promise<Signer> {
    const publicKey = await key.publicKey()
    const signer: Signer = {
      alg: 'EdDSA',
      publicKey,
      isRemote: true,
      async sign(payload) {
        const signature = await key.sign(payload)
        // The label may name another key by now, and a public half in a token can be anything.
        if (isSignedBy(publicKey, payload, signature)) return signature
        known = undefined
        throw new KeyServiceError(
          'gone',
          `${address} signs as another key than the one that its public half belongs to`,
        )
      },
    }
    known = signer
    return signer
  }

  return { known: () => known, open, close: () => key.close() }
}

/** Opens the keys of `HALFKEY_SIGNERS`. Asks none of them yet. */
export function createSigners(addresses: readonly SignerAddress[]): Signers {
  const slots = addresses.map(({ use, address }) => ({ use, address, ...createSlot(address) }))
  const of = (use: SignerUse) => slots.filter((slot) => slot.use === use)

  return {
    named: (use) => of(use).map(({ address }) => address),
    async first(use) {
      const [slot] = of(use)
      return slot === undefined ? null : (slot.known() ?? slot.open())
    },
    async find(use, publicKey) {
      const isIt = (signer: Signer | undefined): signer is Signer => signer?.publicKey.equals(publicKey) === true
      const named = of(use)
      const known = named.map((slot) => slot.known()).find(isIt)
      if (known !== undefined) return known
      const opened = await Promise.allSettled(named.map((slot) => slot.open()))
      for (const each of opened) if (each.status === 'fulfilled' && isIt(each.value)) return each.value
      // One that gives no answer may be the one.
      const failed = opened.find((each) => each.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      throw new KeyServiceError(
        'gone',
        `no key that HALFKEY_SIGNERS names for ${use} is the recorded one, whose public half is ${publicKey.toString('hex')}`,
      )
    },
    close() {
      for (const slot of slots) slot.close()
    },
  }
}

import { generateKeyPairSync, sign } from 'node:crypto'
import {
  canonicalJson,
  fromBase64Url,
  fromHex,
  newEncryptionKey,
  openSealed,
  type SealPurpose,
  type Subject,
  sealTo,
  servicePinOf,
  subshareContext,
  toBase64Url,
  toHex,
} from '../../keys/src/index.ts'
import type { Fetch } from '../src/attempt.ts'

// biome-ignore lint/suspicious/noExplicitAny: the relay reads and changes whatever passes
type Json = any

/** An Ed25519 key that signs statements as an identity key does. */
export function newIdentity() {
  const { privateKey, publicKey: key } = generateKeyPairSync('ed25519')
  const publicKey = key.export({ type: 'spki', format: 'der' }).subarray(-32)
  return {
    publicKey: toHex(publicKey),
    pin: servicePinOf(publicKey),
    sign: (purpose: string, statement: object) =>
      sign(null, Buffer.from(canonicalJson({ ...statement, purpose: `halfkey/v1/${purpose}` })), privateKey).toString(
        'hex',
      ),
  }
}

export type Identity = ReturnType<typeof newIdentity>

/** An answer of `GET /mpc/config` signed anew by another identity. */
export function signedBy(by: Identity, { suite, tenantId, keys, identity }: Json, previous: object | null = null) {
  const { notAfter } = identity
  const signature = by.sign('mpc-config', { suite, tenantId, keys, notAfter })
  return {
    suite,
    tenantId,
    keys,
    signature: '',
    identity: { ...identity, publicKey: by.publicKey, signature, previous },
  }
}

/** What somebody sees who ends TLS between a client and the service, and puts their own key in place of the service's. */
export interface Relay {
  fetch: Fetch
  /** `METHOD /path` of all requests. */
  requests: string[]
  /** Parts of the service's share that the relay could read. */
  learned: Uint8Array[]
}

/** Opens what a client sealed to the relay's key, keeps it, and seals it again to the service's key. */
export async function startRelay(alter: (config: Json) => Json = (config) => config): Promise<Relay> {
  const own = await newEncryptionKey()
  const recipientKey = toHex(own.publicKey)
  const relay: Relay = { requests: [], learned: [], fetch: pass }
  let real = ''
  let subject: Subject | undefined

  async function reseal(box: Json, purpose: SealPurpose, from: number): Promise<void> {
    const contextFor = (key: string) => subshareContext(subject as Subject, { from, to: 1, recipientKey: key })
    const sealed = { enc: fromBase64Url(box.enc), ct: fromBase64Url(box.ct) }
    const scalar = await openSealed(own.privateKey, { purpose, context: contextFor(recipientKey) }, sealed)
    relay.learned.push(scalar)
    const again = await sealTo(fromHex(real), { purpose, context: contextFor(real) }, scalar)
    Object.assign(box, { enc: toBase64Url(again.enc), ct: toBase64Url(again.ct) })
  }

  async function pass(url: string, init: RequestInit): Promise<Response> {
    const path = new URL(url).pathname.replace('/v1', '')
    relay.requests.push(`${init.method} ${path}`)
    const body: Json = init.body === undefined ? undefined : JSON.parse(String(init.body))
    for (const box of body?.sealedSubshares ?? []) await reseal(box, 'dkg-subshare', box.from)
    for (const { from, sealedSubshare } of body?.dealings ?? []) await reseal(sealedSubshare, 'reshare-subshare', from)
    const response = await fetch(url, body === undefined ? init : { ...init, body: JSON.stringify(body) })
    const answer: Json = await response.json()
    subject = answer.data?.subject ?? subject
    if (path === '/mpc/config') {
      const [key, ...others] = answer.data.keys
      real = key.publicKey
      answer.data = alter({ ...answer.data, keys: [{ ...key, publicKey: recipientKey }, ...others] })
    }
    return Response.json(answer, { status: response.status })
  }

  return relay
}

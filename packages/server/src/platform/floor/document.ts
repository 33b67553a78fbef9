import { createHmac, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { equalSecrets, keyIdOf, unwrapKey, wrapKey } from '../security/crypto.ts'
import type { KeyProvider } from '../security/key-provider.ts'
import { KeyServiceError } from '../security/key-services/key-service.ts'
import type { Marks } from './marks.ts'

const FORMAT = 'halfkey-floor/1'
/** Tells a floor's MAC from any other that such a key may ever make. */
const DOMAIN = 'halfkey/v1/floor\n'
const CONTEXT = ['floor']
const KEY_BYTES = 32

const Count = z.int().min(0)
const Body = z.strictObject({
  format: z.literal(FORMAT),
  writtenAt: z.iso.datetime(),
  epoch: Count,
  counters: z.record(z.string(), Count),
  chains: z.record(z.string(), z.strictObject({ seq: Count, hash: z.string().regex(/^([0-9a-f]{64})?$/) })),
  // Floors of earlier releases have none.
  versions: z.record(z.string(), Count).default({}),
})
const Seal = z.strictObject({ key: z.base64(), mac: z.string().regex(/^[0-9a-f]{64}$/) })

/** What is stored as the floor was not written by this installation, or was altered. */
export class FloorForgedError extends Error {}

/** Writes and reads the floor: a line with the marks, and a line with their MAC and its key, which the key file wraps. */
export interface FloorCodec {
  /** @throws FloorForgedError, KeyServiceError */
  decode(bytes: Buffer): Promise<{ marks: Marks; writtenAt: string }>
  encode(marks: Marks, at: Date): Promise<Buffer>
  /** Whether the key of the key file that wraps now also wraps the key of these bytes. */
  isByCurrentKey(bytes: Buffer): boolean
}

interface MacKey {
  wrapped: Buffer
  key: Buffer
}

const macOf = (key: Buffer, body: string) => createHmac('sha256', key).update(DOMAIN).update(body).digest()

function cut(bytes: Buffer): { body: string; seal: z.infer<typeof Seal> } {
  const [body, seal, rest, ...more] = bytes.toString('utf8').split('\n')
  try {
    if (body !== undefined && seal !== undefined && rest === '' && more.length === 0)
      return { body, seal: Seal.parse(JSON.parse(seal)) }
  } catch {
    // Reported below, like bytes that are not of two lines.
  }
  throw new FloorForgedError('it is not a floor, or it is damaged')
}

/** The marks of the present format in a line that was authenticated. */
function readBody(body: string): { marks: Marks; writtenAt: string } {
  const { writtenAt, format: _, ...marks } = Body.parse(JSON.parse(body))
  return { marks, writtenAt }
}

/** @param keys whoever writes the place of the floor has none of them, and so cannot make a MAC */
export function createFloorCodec(keys: KeyProvider): FloorCodec {
  let known: MacKey | undefined

  async function open(wrapped: Buffer): Promise<Buffer> {
    // Each time, also if it is known: so a process that does nothing else notices that the key file has changed.
    const key = await unwrapKey(keys, wrapped, CONTEXT).catch((error: unknown): never => {
      // A key service that is away says nothing about the floor.
      if (error instanceof KeyServiceError) throw error
      throw new FloorForgedError('no key of the key file opens it', { cause: error })
    })
    known = { wrapped, key }
    return key
  }

  async function current(): Promise<MacKey> {
    if (known !== undefined && keyIdOf(known.wrapped) === keys.keyId) return known
    const key = randomBytes(KEY_BYTES)
    known = { key, wrapped: await wrapKey(keys, key, CONTEXT) }
    return known
  }

  return {
    async decode(bytes) {
      const { body, seal } = cut(bytes)
      const key = await open(Buffer.from(seal.key, 'base64'))
      if (!equalSecrets(macOf(key, body), Buffer.from(seal.mac, 'hex'))) throw new FloorForgedError('its MAC is wrong')
      return readBody(body)
    },
    async encode({ epoch, counters, chains, versions }, at) {
      const { key, wrapped } = await current()
      const body = JSON.stringify({ format: FORMAT, writtenAt: at.toISOString(), epoch, counters, chains, versions })
      const seal = { key: wrapped.toString('base64'), mac: macOf(key, body).toString('hex') }
      return Buffer.from(`${body}\n${JSON.stringify(seal)}\n`)
    },
    isByCurrentKey(bytes) {
      try {
        return keyIdOf(Buffer.from(cut(bytes).seal.key, 'base64')) === keys.keyId
      } catch {
        return false
      }
    },
  }
}

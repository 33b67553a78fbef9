import type { Config } from '../config.ts'
import type { Egress } from '../egress/egress.ts'
import type { KeyProvider } from '../security/key-provider.ts'
import { createFloorCodec, FloorForgedError } from './document.ts'
import { openFloorStorage } from './storage.ts'

interface Rewrapping {
  config: Config
  egress: Egress
  /** Of the key file as it is now: the first key wraps. */
  keys: KeyProvider
  now(): Date
}

/**
 * Writes the floor again under the key that wraps now, before the old one is dropped: perhaps no process runs that would do it. One that
 * does not verify stays as it is, for `halfkey restore accept`.
 * @throws Error if the floor cannot be read or written
 */
export async function rewrapFloor({ config, egress, keys, now }: Rewrapping): Promise<void> {
  const storage = openFloorStorage(config, egress)
  const bytes = (await storage?.read()) ?? null
  const codec = createFloorCodec(keys)
  if (storage === null || bytes === null || codec.isByCurrentKey(bytes)) return
  try {
    const { marks } = await codec.decode(bytes)
    await storage.write(await codec.encode(marks, now()))
  } catch (error) {
    if (!(error instanceof FloorForgedError)) throw error
  }
}

import { rewrap } from '../../platform/security/crypto.ts'
import { type KeyFile, type KeyProvider, openKeyFile } from '../../platform/security/key-provider.ts'
import { TransferError } from './errors.ts'

/** The key under which an export travels. @throws KeyFileError, TransferError when it is the installation's own */
export async function openTransferKey(path: string, installation: KeyProvider): Promise<KeyFile> {
  const keys = await openKeyFile(path, { create: false })
  if (keys.keyIds.includes(installation.keyId))
    throw new TransferError(
      `${path} is the key file of this installation: who gets it opens all of it. Make a key for this move alone: (umask 077; halfkey keys generate-kek > transfer.key)`,
    )
  return keys
}

/** Hands values that are sealed under one key over to another; their text stays as it is, unread. */
export function handOver(from: KeyProvider, to: KeyProvider): (sealed: Buffer) => Promise<Buffer> {
  const between: KeyProvider = {
    keyId: to.keyId,
    wrap: (dataKey, aad) => to.wrap(dataKey, aad),
    unwrap: (keyId, wrapped, aad) => from.unwrap(keyId, wrapped, aad),
  }
  return (sealed) => rewrap(between, sealed)
}

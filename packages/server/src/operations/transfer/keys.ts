import { isWrappedKey, rewrap } from '../../platform/security/crypto.ts'
import { type KeyFile, type KeyProvider, openKeyFile } from '../../platform/security/key-provider.ts'
import { TransferError } from './errors.ts'
import type { Row, Table } from './tables.ts'

/** The key under which an export travels. @throws KeyFileError, TransferError when it is the installation's own */
export async function openTransferKey(path: string, installation: KeyProvider): Promise<KeyFile> {
  const keys = await openKeyFile(path, { create: false })
  if (keys.keyIds.includes(installation.keyId))
    throw new TransferError(
      `${path} is the key file of this installation. Anyone who has it can open all secrets. Create a key for this move only: (umask 077; halfkey keys generate-kek > transfer.key)`,
    )
  return keys
}

/** Whether a column holds sealed values, by its name. */
export const isSealed = ({ name, type }: Table['columns'][number]): boolean =>
  type === 'bytea' && name.endsWith('_sealed')

/**
 * A table's rows with their sealed values under another key. What they seal is not opened.
 * @throws Error at a value that no key of `from` wraps
 */
export async function rewrapRows(
  { columns }: Table,
  rows: readonly Row[],
  from: KeyProvider,
  to: KeyProvider,
): Promise<Row[]> {
  const between: KeyProvider = {
    keyId: to.keyId,
    wrap: (dataKey, aad) => to.wrap(dataKey, aad),
    unwrap: (keyId, wrapped, aad) => from.unwrap(keyId, wrapped, aad),
  }
  const sealed = columns.map(isSealed)
  const one = async (text: string | null, at: number) => {
    if (text === null || !sealed[at]) return text
    const value = Buffer.from(text.slice(2), 'hex')
    if (isWrappedKey(value)) throw new Error('a wrapped key stands in the place of a sealed value')
    return `\\x${(await rewrap(between, value)).toString('hex')}`
  }
  return Promise.all(rows.map((row) => Promise.all(row.map(one))))
}

import { UsageError } from '../../command.ts'

/** A head as `audit verify` and `ledger verify` print it. @throws UsageError */
export function readHead(text: string): { seq: number; hash: string } {
  const match = /^([1-9]\d{0,15}):([0-9a-f]{64})$/.exec(text.toLowerCase())
  if (match === null) throw new UsageError('--head must be SEQ:HASH, as audit verify and ledger verify print it.')
  return { seq: Number(match[1]), hash: match[2] as string }
}

/** The fingerprint of a tenant's node key, alone or at the end of a party's id. @throws UsageError */
export function readSigner(text: string): string {
  const signer = text.slice(text.lastIndexOf(':') + 1).toLowerCase()
  if (!/^1220[0-9a-f]{64}$/.test(signer))
    throw new UsageError("--signer must be a key's fingerprint: 1220 and 64 more hexadecimal digits.")
  return signer
}

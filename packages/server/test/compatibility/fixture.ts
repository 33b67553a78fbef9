/** What is kept of an earlier commit: a folder beside this file, named after the commit and written by make-fixtures.ts. */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'

/** A delegated session, as its delegate holds it. */
interface HeldSession {
  id: string
  token: string
  /** A holding of the wallet that has not been spent. */
  contractId: string
}

/** Everything that the tenant, its users and its servers hold and a database does not. For tests only. */
export interface Held {
  /** When the dump was made, ISO 8601: the services that read it back have this time. */
  at: string
  tenantId: string
  appId: string
  /** API keys. */
  admin: string
  publishable: string
  narrow: string
  revoked: string
  /** Signed up by a passkey; `credential` is what the authenticator kept. */
  ada: { userId: string; email: string; refreshToken: string; credential: string }
  /** Signed up by a passkey, too, and has a second factor. */
  bob: { userId: string; email: string; credential: string; totpSecret: string; recoveryCodes: string[] }
  /** Signed in by messenger. */
  eve: { userId: string; botToken: string; messengerId: number }
  /** Embedded wallet; 3 of the 10 that the session may spend are spent. */
  carol: { userId: string; session: HeldSession }
  /** A guest with a shared wallet, both of whose shares are written down; the device share is stored, protected, too. */
  dan: {
    userId: string
    refreshToken: string
    walletId: string
    device: string
    recovery: string
    passkey: { credentialId: string; prfOutput: string }
    session: HeldSession
  }
  /** Self-custody: the key's secret scalar, hex. */
  sam: { userId: string; scalar: string; session: HeldSession }
  webhooks: Record<'works' | 'fails' | 'late', { id: string; secret: string }>
  /** Sent the dead letters of the webhook `fails` again. */
  jobId: string
  /** Of the webhook `fails`. */
  deadLetter: { id: string; eventId: string }
  /** Of the webhook `late`: attempted once. */
  pending: { id: string; eventId: string }
  /** Created while no process delivered: nothing has been sent about this user. */
  unsentUserId: string
}

/** What the API answered to each GET of the tenant, by path. */
export type Answers = Record<string, unknown>

const path = (commit: string, name: string) => join(import.meta.dirname, commit, name)

/** Reads a file of a fixture; those that end in `.gz` are decompressed. */
export function readFixture(commit: string, name: string): string {
  const bytes = readFileSync(path(commit, name))
  return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')
}

/** Writes a file of a fixture, compressed where its name ends in `.gz`. */
export function writeFixture(commit: string, name: string, text: string): void {
  writeFileSync(path(commit, name), name.endsWith('.gz') ? gzipSync(text, { level: 9 }) : text)
}

/** Copies a key file to where only its owner can read it: the service refuses any other, and git keeps no modes. */
export function copyKeyFile(commit: string, name: string, to: string): string {
  writeFileSync(to, readFixture(commit, name), { mode: 0o600 })
  chmodSync(to, 0o600)
  return to
}

/** The path of a file that is not text. */
export const fixturePath = path

import { existsSync, readFileSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { EmbeddedDatabaseError } from './errors.ts'

/** The unprivileged user PostgreSQL runs under; null where it runs as the user of this process. */
export type Account = { uid: number; gid: number; name: string } | null

/**
 * PostgreSQL refuses to run as root, so root lends it an existing unprivileged user.
 * The owner of the first of `dirs` that is not root's wins: an existing cluster's, so that the choice never changes
 * between two starts, or the data folder's, who can then run Halfkey there himself.
 */
export function chooseAccount(dirs: string[]): Account {
  if (process.getuid?.() !== 0) return null
  const users = readUsers()
  for (const dir of dirs) {
    const stats = statSync(dir, { throwIfNoEntry: false })
    if (!stats || stats.uid === 0) continue
    return users.find((user) => user.uid === stats.uid) ?? { uid: stats.uid, gid: stats.gid, name: `uid ${stats.uid}` }
  }
  const account = ['postgres', '_postgres', 'nobody']
    .map((name) => users.find((user) => user.name === name))
    .find(Boolean)
  if (account) return account
  throw new EmbeddedDatabaseError(
    'platform_unsupported',
    'PostgreSQL does not run as root, and this machine has neither a user "postgres" nor a user "nobody" to run it. ' +
      'Start Halfkey as another user, or set DATABASE_URL to your own PostgreSQL.',
  )
}

function readUsers(): { uid: number; gid: number; name: string }[] {
  if (!existsSync('/etc/passwd')) return []
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter((user) => user.name !== '' && user.uid > 0 && user.gid > 0)
}

/** Whether the account may enter `path` and every folder above it. Access lists are not looked at: mode bits only. */
export function canTraverse(path: string, account: Account): boolean {
  if (account === null) return true
  for (let folder = path; ; folder = dirname(folder)) {
    if (!allows(statSync(folder), account, 1)) return false
    if (folder === dirname(folder)) return true
  }
}

/** Whether the account may read this one file or folder, the folders above it aside. */
export function canRead(path: string, account: Account): boolean {
  return account === null || allows(statSync(path), account, 4)
}

function allows(stats: Stats, account: NonNullable<Account>, bit: 1 | 4): boolean {
  if (stats.uid === account.uid) return (stats.mode & (bit << 6)) !== 0
  if (stats.gid === account.gid) return (stats.mode & (bit << 3)) !== 0
  return (stats.mode & bit) !== 0
}

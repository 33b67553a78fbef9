import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { canTraverse, chooseAccount } from '../../src/platform/db/embedded/account.ts'

/**
 * Root's PostgreSQL runs as another user, to whom TMPDIR may be closed (one below root's home is). The tests' databases
 * then go to a temporary folder that is open, so that each lies where its test looks. What the service itself does
 * about a closed folder has separate tests.
 */
export function openTemporaryFolder(): void {
  const account = chooseAccount([])
  if (account === null) return
  const candidates = [tmpdir(), '/tmp', '/var/tmp']
  const open = candidates.find((folder) => existsSync(folder) && canTraverse(folder, account))
  if (open === undefined)
    throw new Error(
      `The user "${account.name}", under whom root's PostgreSQL runs, can reach none of ${candidates.join(', ')}. ` +
        'Set TMPDIR to a folder that it can pass through (chmod o+x on each above it), or run the tests as another user.',
    )
  process.env.TMPDIR = open
}

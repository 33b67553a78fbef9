import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import type { Account } from './account.ts'
import { EmbeddedDatabaseError, errorCode } from './errors.ts'

const OUTPUT_CHARS_MAX = 8_000

/**
 * How every PostgreSQL program is run: its user, a neutral folder (ours may be closed to that user, which initdb takes
 * for an error) and none of our environment: PGDATA or PGPORT must not steer our cluster, and our secrets are none of
 * its business. Windows programs cannot start without the system's variables, so there it inherits.
 */
function childOptions(account: Account): SpawnOptions {
  if (process.platform === 'win32') return { windowsHide: true }
  return {
    cwd: '/',
    env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/local/bin:/usr/bin:/bin' },
    ...(account ? { uid: account.uid, gid: account.gid } : {}),
  }
}

/** Runs a program to its end; never rejects for a non-zero `exitCode`. `output` is stdout and stderr, cut at 8 000 characters. */
export function run(program: string, args: string[], account: Account): Promise<{ exitCode: number; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...childOptions(account), stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const collect = (chunk: Buffer) => {
      if (output.length < OUTPUT_CHARS_MAX) output += chunk.toString('utf8')
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    child.once('error', (error) => reject(cannotRun(program, error)))
    child.once('close', (exitCode) => resolve({ exitCode: exitCode ?? -1, output: output.slice(0, OUTPUT_CHARS_MAX) }))
  })
}

/** Starts a program that outlives us: its own session (Ctrl-C in our terminal passes it by), output to the given file. */
export function runDetached(program: string, args: string[], account: Account, logFile: number): Promise<ChildProcess> {
  return new Promise((resolve, reject) => {
    const options = {
      ...childOptions(account),
      detached: true,
      stdio: ['ignore', logFile, logFile] as ('ignore' | number)[],
    }
    const child = spawn(program, args, options)
    child.once('error', (error) => reject(cannotRun(program, error)))
    child.once('spawn', () => resolve(child))
    child.unref()
  })
}

function cannotRun(program: string, cause: unknown): EmbeddedDatabaseError {
  // ENOENT for a file that exists: its loader is missing, as glibc's is on Alpine. EPERM: root without the right to change user.
  return new EmbeddedDatabaseError(
    'platform_unsupported',
    `The embedded PostgreSQL does not run on this machine: ${program} ended with ${errorCode(cause) || String(cause)}` +
      `${errorCode(cause) === 'ENOENT' ? ' (its programs need glibc; Alpine has musl)' : ''}. ` +
      'Set DATABASE_URL to your own PostgreSQL.',
    { cause },
  )
}

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, vi } from 'vitest'
import { childEnvironment } from '../../../test/harness/environment.ts'
import type { Answer, Service, Tenant } from '../../../test/harness/harness.ts'
import type { Deps } from '../../platform/deps.ts'
import { runCli } from '../cli/cli.ts'

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url))
const SAID_MS = 60_000

/** How a command ended. */
export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** A command at work. */
export interface Running {
  child: ChildProcess
  ended: Promise<Ended>
  /** Resolves once one of its streams holds this; fails if it ends before. */
  says(pattern: RegExp): Promise<void>
  stdout(): string
}

/** Starts `halfkey …` with these variables, besides PATH and HOME, and in a folder without a database. */
export function start(args: readonly string[], env: Record<string, string>): Running {
  const cwd = mkdtempSync(join(tmpdir(), 'hk-seed-'))
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd,
    env: { ...childEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const told = { stdout: '', stderr: '' }
  const watchers = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const)
    child[name].on('data', (chunk) => {
      told[name] += chunk
      for (const look of watchers) look()
    })
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      rmSync(cwd, { recursive: true, force: true })
      resolve({ code, signal, ...told })
    })
  })
  const says = (pattern: RegExp) =>
    new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${pattern}: not said within ${SAID_MS} ms`)), SAID_MS)
      const look = () => {
        if (!pattern.test(told.stdout) && !pattern.test(told.stderr)) return
        clearTimeout(timer)
        watchers.delete(look)
        resolve()
      }
      watchers.add(look)
      void ended.then((how) => reject(new Error(`${pattern}: ended with ${JSON.stringify(how)}`)))
      look()
    })
  return { child, ended, says, stdout: () => told.stdout }
}

/** The variables of a command beside the service, on its database; by the tenant's key unless it is to make its own. */
export function beside(service: Service, tenant?: Tenant): Record<string, string> {
  return {
    HALFKEY_URL: service.url,
    DATABASE_URL: service.databaseUrl,
    HALFKEY_DATA_DIR: service.dataDir,
    ...(tenant === undefined ? {} : { HALFKEY_KEY: tenant.key }),
  }
}

/** Runs `halfkey seed …` to its end, as people do: in a separate process. */
export const seedApart = (env: Record<string, string>, ...args: string[]): Promise<Ended> =>
  start(['seed', ...args], env).ended

const READ = /^(?:HALFKEY_(?!TEST_)\w+|DATABASE_URL|DATABASE_DIRECT_URL)$/

/**
 * Runs `halfkey seed …` to its end in this process, which is loaded already, with these variables and in a folder without a
 * database. `deps` is what its database opens as; without it, opening one fails.
 */
export async function seed(env: Record<string, string>, deps: Deps | null, ...args: string[]): Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), 'hk-seed-'))
  const [out, err]: [string[], string[]] = [[], []]
  for (const name of Object.keys(process.env)) if (READ.test(name)) vi.stubEnv(name, undefined)
  for (const [name, value] of Object.entries({ HALFKEY_DATA_DIR: folder, ...env })) vi.stubEnv(name, value)
  try {
    const code = await runCli(['seed', ...args], {
      openDeps: async () => {
        if (deps === null) throw new Error('a database was opened')
        return { deps, close: async () => {} }
      },
      out: (line) => void out.push(`${line}\n`),
      err: (line) => void err.push(`${line}\n`),
    })
    return { code, signal: null, stdout: out.join(''), stderr: err.join('') }
  } finally {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Runs `halfkey seed …` beside the service, on its database, by the tenant's key. */
export const seedBeside = (service: Service, tenant: Tenant, ...args: string[]): Promise<Ended> =>
  seed(beside(service, tenant), service.deps, ...args)

/** What a command that went well has to say to programs. */
export function dataOf({ code, stdout, stderr }: Ended): Answer['body'] {
  expect(code, stdout + stderr).toBe(0)
  return JSON.parse(stdout)
}

/** All records of a list. */
export async function all(tenant: Tenant, path: string): Promise<Answer['body'][]> {
  const found: Answer['body'][] = []
  for (let page = 1; ; page += 1) {
    const answer = await tenant.get(`${path}${path.includes('?') ? '&' : '?'}page=${page}&page_size=100`)
    expect(answer.status, answer.text).toBe(200)
    found.push(...answer.body.data)
    if (!answer.body.hasMore) return found
  }
}

const LISTS = [
  'apps',
  'users',
  'guests',
  'wallets',
  'api-keys',
  'webhooks',
  'custom-domains',
  'delegated-sessions',
  'transactions',
]

const DAY_MS = 86_400_000

/** Days that were over before the tests began, and that every series of 90 days has, also should midnight pass. */
const OVER = [80, 1].map((ago) => new Date(Date.now() - ago * DAY_MS).toISOString().slice(0, 10)) as [string, string]
export const isOver = ({ date }: { date: string }): boolean => date >= OVER[0] && date <= OVER[1]

/** Everything that a tenant lists, without what looking and time change; and its counters of past days. */
export async function listsOf(tenant: Tenant): Promise<Record<string, unknown>> {
  const entries = LISTS.map(async (name) => {
    const records = await all(tenant, `/${name}`)
    // Whether a domain's record is there, the service looks by itself.
    const looks = name === 'custom-domains' ? { error: null, updatedAt: null } : {}
    return [name, records.map(({ lastUsedAt, lastCheckedAt, health, ...record }) => ({ ...record, ...looks }))] as const
  })
  const { series } = (await tenant.get('/analytics?period=90d')).body.data
  return { ...Object.fromEntries(await Promise.all(entries)), past: series.filter(isOver) }
}

/** How many records have each value of something. */
export function tallyOf(
  records: readonly Answer['body'][],
  of: (record: Answer['body']) => string,
): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const record of records) counts[of(record)] = (counts[of(record)] ?? 0) + 1
  return counts
}

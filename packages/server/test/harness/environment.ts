import { tmpdir } from 'node:os'

/** What a process under test gets of this one's environment: to find programs and folders, and Node's cache of compiled files. */
export function childEnvironment(): Record<string, string> {
  const { PATH = '', HOME = '', TMPDIR = tmpdir(), NODE_COMPILE_CACHE } = process.env
  return { PATH, HOME, TMPDIR, ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) }
}

/** Everything except the settings of the service and of the test runner: npm may need a proxy or a certificate authority. */
export function npmEnvironment(): Record<string, string> {
  const excluded = /^(HALFKEY_.*|DATABASE_URL|HOST|PORT|NODE_OPTIONS|VITEST.*|NODE_ENV)$/
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value === undefined || excluded.test(name) ? [] : [[name, value]],
    ),
  )
}

/** A role of the run's PostgreSQL that owns no tables. With HALFKEY_TEST_BACKEND of this name, services under test connect as it. */
export const RUNTIME_ROLE = 'halfkey_runtime'

/** The settings of a service that connects as the role with fewer rights to a database of this release's schema. */
export function asRuntimeRole(databaseUrl: string): Record<string, string> {
  const url = new URL(databaseUrl)
  url.username = RUNTIME_ROLE
  return { DATABASE_URL: url.href, HALFKEY_MIGRATE: 'off' }
}

/** The settings of a service under test for a database of this release's schema. */
export const settingsFor = (databaseUrl: string): Record<string, string> =>
  process.env.HALFKEY_TEST_BACKEND === RUNTIME_ROLE ? asRuntimeRole(databaseUrl) : { DATABASE_URL: databaseUrl }

/** Names, in this process, the ways to the run's PostgreSQL where a pooler is in front of it. */
export const POOLED = 'HALFKEY_TEST_POOLED'

const ways = () => JSON.parse(process.env[POOLED] ?? 'null') as { direct: string; pooled: string } | null

/** The address of a database as services under test get it: through the pooler, if the run has one. */
export function pooledUrl(url: string): string {
  const both = ways()
  return both === null ? url : url.replace(both.direct, both.pooled)
}

/** The address of a database past the run's pooler. */
export function directUrl(url: string): string {
  const both = ways()
  return both === null ? url : url.replace(both.pooled, both.direct)
}

/** The settings of a service, with the direct address of a database that it reaches through the run's pooler. */
export function withDirectUrl(settings: Record<string, string>): Record<string, string> {
  const both = ways()
  const { DATABASE_URL: url } = settings
  if (both === null || url?.includes(both.pooled) !== true) return settings
  return { DATABASE_DIRECT_URL: directUrl(url), ...settings }
}

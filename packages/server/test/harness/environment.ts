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

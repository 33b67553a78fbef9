import { tmpdir } from 'node:os'

/** What a process under test gets of this one's environment: to find programs and folders, and Node's cache of compiled files. */
export function childEnvironment(): Record<string, string> {
  const { PATH = '', HOME = '', TMPDIR = tmpdir(), NODE_COMPILE_CACHE } = process.env
  return { PATH, HOME, TMPDIR, ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) }
}

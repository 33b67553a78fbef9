import { createRequire } from 'node:module'

/** The release, as the package says. */
export const VERSION: string = (createRequire(import.meta.url)('../../package.json') as { version: string }).version

// Holds openapi.json against the descriptions of earlier commits: nothing is removed or narrowed but what is listed here.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { apiChanges } from './api-changes.ts'

const PACKAGE = join(import.meta.dirname, '..')

const EMAIL = 'what the pattern refuses was refused before too, but after all other fields'

/**
 * Changes that break a client and are meant, by the line that this program prints: each with its reason, and an entry in
 * CHANGELOG.md.
 */
const ACCEPTED: Record<string, string> = {
  'POST /users body.email: another pattern': EMAIL,
  'PATCH /users/{id} body.email: another pattern': EMAIL,
  'POST /guests/{id}/convert body.email: another pattern': EMAIL,
  'POST /auth/passkey/register-options body.email: another pattern': EMAIL,
  'GET /auth/passkey/login-options query email: another pattern': EMAIL,
}

const after = JSON.parse(readFileSync(join(PACKAGE, 'openapi.json'), 'utf8'))
const accepted = new Set<string>()
let refused = 0
for (const path of globSync('test/compatibility/*/openapi.json.gz', { cwd: PACKAGE }).sort()) {
  const before = JSON.parse(gunzipSync(readFileSync(join(PACKAGE, path))).toString('utf8'))
  for (const change of apiChanges(before, after)) {
    if (change in ACCEPTED) accepted.add(change)
    else {
      console.error(`Since ${dirname(path).split(/[\\/]/).at(-1)}, ${change}`)
      refused += 1
    }
  }
}
const stale = Object.keys(ACCEPTED).filter((change) => !accepted.has(change))
for (const change of stale) console.error(`"${change}" is listed as accepted, but the API has not changed so.`)
if (refused > 0)
  console.error(
    `${refused} changes break clients of an earlier version. Undo them, or list them in packages/server/scripts/check-api.ts with the reason.`,
  )
process.exitCode = refused + stale.length > 0 ? 1 : 0

// Holds openapi.json against the descriptions of earlier commits: nothing is removed or narrowed but what is listed here.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { apiChanges } from './api-changes.ts'

const PACKAGE = join(import.meta.dirname, '..')

const EMAIL = 'what the pattern refuses was refused before too, but after all other fields'

const TEMPLATE = 'templates of Canton have the id of their package before them; all others are what they were'
const STRUCTURE = 'only ledgers that were not there before answer values with structure'

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
  'GET /delegated-sessions 200.data[].policy.allow[].templateId: another pattern': TEMPLATE,
  'GET /delegated-sessions 200.data[].policy.deny[].templateId: another pattern': TEMPLATE,
  'GET /delegated-sessions 200.data[].policy.query.templateIds[]: another pattern': TEMPLATE,
  'POST /delegated-sessions body.policy.allow[].templateId: another pattern': TEMPLATE,
  'POST /delegated-sessions body.policy.deny[].templateId: another pattern': TEMPLATE,
  'POST /delegated-sessions body.policy.query.templateIds[]: another pattern': TEMPLATE,
  'POST /delegated-sessions 201.data.policy.allow[].templateId: another pattern': TEMPLATE,
  'POST /delegated-sessions 201.data.policy.deny[].templateId: another pattern': TEMPLATE,
  'POST /delegated-sessions 201.data.policy.query.templateIds[]: another pattern': TEMPLATE,
  'GET /delegated-sessions/{id} 200.data.policy.allow[].templateId: another pattern': TEMPLATE,
  'GET /delegated-sessions/{id} 200.data.policy.deny[].templateId: another pattern': TEMPLATE,
  'GET /delegated-sessions/{id} 200.data.policy.query.templateIds[]: another pattern': TEMPLATE,
  'DELETE /delegated-sessions/{id} 200.data.policy.allow[].templateId: another pattern': TEMPLATE,
  'DELETE /delegated-sessions/{id} 200.data.policy.deny[].templateId: another pattern': TEMPLATE,
  'DELETE /delegated-sessions/{id} 200.data.policy.query.templateIds[]: another pattern': TEMPLATE,
  'POST /delegated-sessions/{id}/query body.templateIds[]: another pattern': TEMPLATE,
  'POST /delegated-sessions/{id}/execute 200.data.effects[].arguments.*: any other type was never answered before':
    STRUCTURE,
  'POST /delegated-sessions/{id}/query 200.data.contracts[].arguments.*: any other type was never answered before':
    STRUCTURE,
  'GET /transactions/{id} 200.data.effects[].arguments.*: any other type was never answered before': STRUCTURE,
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

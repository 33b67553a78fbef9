import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { newApiKey, SCOPES, type Scope } from '../../platform/security/api-key.ts'
import { rotateSigningKey } from '../../platform/security/signing-keys.ts'
import type { CreateApiKey } from '../../tenancy/api-keys/schema.ts'
import { createApiKeyByOperator } from '../../tenancy/api-keys/service.ts'
import { isTenant, listTenants } from '../../tenancy/tenant/service.ts'
import { type Command, CommandError, readOptions, required, UsageError, withDeps } from './command.ts'

const TENANTS_SHOWN_MAX = 20
const NAME_CHARS_MAX = 200

/** `halfkey keys generate` */
export const keysGenerate: Command = {
  name: 'keys generate',
  summary: 'Print a new secret key for HALFKEY_ADMIN_KEY',
  usage: '',
  details: [
    "Needs no database. The key becomes the first tenant's admin key when the first start finds it in HALFKEY_ADMIN_KEY.",
  ],
  async run(args) {
    readOptions(keysGenerate, args, {})
    const key = newApiKey('secret')
    return { data: { key }, lines: [key] }
  },
}

const OPTIONS = {
  tenant: { type: 'string' },
  name: { type: 'string' },
  scopes: { type: 'string' },
  type: { type: 'string' },
  app: { type: 'string' },
} as const

function readScopes(text: string | undefined): Scope[] {
  const scopes = (text ?? '*').split(',').map((scope) => scope.trim())
  const unknown = scopes.find((scope) => !SCOPES.includes(scope as Scope))
  if (unknown !== undefined)
    throw new UsageError(`--scopes: there is no scope "${unknown}". Scopes: ${SCOPES.join(', ')}`)
  return [...new Set(scopes)] as Scope[]
}

function readKey(args: string[]): { tenant: string | undefined; input: CreateApiKey } {
  const options = readOptions(keysCreate, args, OPTIONS)
  const name = required(keysCreate, 'name', options.name)
  if (name.length > NAME_CHARS_MAX) throw new UsageError(`--name must have at most ${NAME_CHARS_MAX} characters.`)
  const type = options.type ?? 'secret'
  const bound = options.app === undefined ? {} : { appId: options.app }
  if (type === 'secret')
    return { tenant: options.tenant, input: { name, type, scopes: readScopes(options.scopes), ...bound } }
  if (type !== 'publishable') throw new UsageError('--type must be secret or publishable.')
  if (options.scopes !== undefined) throw new UsageError('--scopes is for secret keys: a publishable key has none.')
  return { tenant: options.tenant, input: { name, type, appId: required(keysCreate, 'app', options.app) } }
}

/** The tenant that is meant: the one named, or the only one. */
export async function findTenant(deps: Deps, wanted: string | undefined): Promise<Id<'ten'>> {
  if (wanted !== undefined && (await isTenant(deps.db, wanted))) return wanted as Id<'ten'>
  const tenants = await listTenants(deps.db, TENANTS_SHOWN_MAX)
  const [first, second] = tenants
  if (first === undefined)
    throw new CommandError(
      'There is no tenant yet. Start the service once (halfkey serve), or run: halfkey tenants create --name NAME',
    )
  if (wanted === undefined && second === undefined) return first.id
  const shown = tenants.map((tenant) => `\n  ${tenant.id}  ${tenant.name}`).join('')
  const more = tenants.length === TENANTS_SHOWN_MAX ? '\n  …' : ''
  if (wanted === undefined) throw new UsageError(`There are several tenants: name one with --tenant.${shown}${more}`)
  throw new CommandError(`There is no tenant ${wanted}. Tenants:${shown}${more}`)
}

/** `halfkey keys create` */
export const keysCreate: Command = {
  name: 'keys create',
  summary: 'Create an API key, by right of holding the database',
  usage: '--name NAME [--tenant ID] [--scopes a,b] [--type secret|publishable] [--app ID]',
  details: [
    'Without --scopes the key may do everything (*): the way back in when the admin key is lost.',
    'Without --tenant it is for the only tenant there is. With --app it is bound to that app; a publishable key must be.',
    `Scopes: ${SCOPES.join(', ')}`,
  ],
  async run(args, context) {
    const { tenant, input } = readKey(args)
    return withDeps(context, async (deps) => {
      const tenantId = await findTenant(deps, tenant)
      const { key, ...record } = await createApiKeyByOperator(deps, tenantId, input)
      const rights = record.type === 'secret' ? `, scopes ${record.scopes.join(', ')}` : ''
      const bound = record.appId === null ? '' : `, for the app ${record.appId}`
      return {
        data: { tenantId, ...record, key },
        lines: [
          `API key ${record.id} (${record.name}): ${record.type}${rights}${bound}, of tenant ${tenantId}.`,
          'Shown this once:',
          key,
        ],
      }
    })
  },
}

/** `halfkey keys rotate-signing` */
export const keysRotateSigning: Command = {
  name: 'keys rotate-signing',
  summary: 'Make a new key that signs access tokens',
  usage: '[--revoke-previous]',
  details: [
    'Running processes sign with it within a second. The keys before it stay in /.well-known/jwks.json until the last',
    'access token by them has expired, so nobody is signed out.',
    'With --revoke-previous nothing that they signed counts any more, refresh tokens included: everybody signs in again.',
    'For keys that may be in the wrong hands.',
  ],
  async run(args, context) {
    const options = readOptions(keysRotateSigning, args, { 'revoke-previous': { type: 'boolean' } })
    const revoke = options['revoke-previous'] ?? false
    return withDeps(context, async (deps) => {
      const { id, previous, retiresAt } = await rotateSigningKey(deps, { revoke })
      const before = revoke
        ? `Revoked: ${previous.join(', ') || 'none'}. Everybody has to sign in again.`
        : `Published until ${retiresAt?.toISOString()}: ${previous.join(', ') || 'none'}.`
      return {
        data: { id, previous, retiresAt, revoked: revoke },
        lines: [`Signing key ${id} is the current one.`, before],
      }
    })
  },
}

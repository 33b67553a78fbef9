import { Option } from '@commander-js/extra-typings'
import { rotateIdTokenKeys } from '../../../../identity/id-tokens/service.ts'
import { newApiKey, SCOPES, type Scope } from '../../../../platform/security/api-key.ts'
import { rotateSigningKey } from '../../../../platform/security/signing-keys.ts'
import type { CreateApiKey } from '../../../../tenancy/api-keys/schema.ts'
import { createApiKeyByOperator } from '../../../../tenancy/api-keys/service.ts'
import { defineCommand, findTenant, shortText, UsageError, withDeps } from '../../command.ts'

/** `halfkey keys generate` */
export const keysGenerate = defineCommand({
  name: 'keys generate',
  summary: 'Print a new secret key for HALFKEY_ADMIN_KEY',
  details:
    "Needs no database. If HALFKEY_ADMIN_KEY is set to the key at the first start, it becomes the first tenant's admin key.",
  async run() {
    const key = newApiKey('secret')
    return { data: { key }, lines: [key] }
  },
})

function readScopes(text: string): Scope[] {
  const scopes = text.split(',').map((scope) => scope.trim())
  const unknown = scopes.find((scope) => !SCOPES.includes(scope as Scope))
  if (unknown !== undefined)
    throw new UsageError(`--scopes: there is no scope "${unknown}". Scopes: ${SCOPES.join(', ')}`)
  return [...new Set(scopes)] as Scope[]
}

/** `halfkey keys create` */
export const keysCreate = defineCommand({
  name: 'keys create',
  summary: 'Create an API key. Access to the database is enough',
  details: 'Without --scopes, the key can do everything (*). Use it to regain access if the admin key is lost.',
  options: (command) =>
    command
      .requiredOption('--name <name>', 'what the key is for', shortText('--name'))
      .option('--tenant <id>', 'its tenant (default: the only one)')
      .option('--scopes <scopes>', `the scopes of a secret key, separated by commas: ${SCOPES.join(', ')}`, readScopes)
      .addOption(new Option('--type <type>').choices(['secret', 'publishable']).default('secret' as const))
      .option('--app <id>', 'binds the key to this app; a publishable key must be bound'),
  async run({ name, tenant, scopes, type, app }, context) {
    if (type === 'publishable' && app === undefined)
      throw new UsageError('--app is missing: a publishable key must be bound to an app.')
    if (type === 'publishable' && scopes !== undefined)
      throw new UsageError('--scopes is for secret keys: a publishable key has none.')
    const bound = app === undefined ? {} : { appId: app }
    const input: CreateApiKey =
      type === 'secret' ? { name, type, scopes: scopes ?? ['*'], ...bound } : { name, type, appId: app as string }
    return withDeps(context, async (deps) => {
      const tenantId = await findTenant(deps, tenant)
      const { key, ...record } = await createApiKeyByOperator(deps, tenantId, input)
      const rights = record.type === 'secret' ? `, scopes ${record.scopes.join(', ')}` : ''
      const reach = record.appId === null ? '' : `, for the app ${record.appId}`
      return {
        data: { tenantId, ...record, key },
        lines: [
          `API key ${record.id} (${record.name}): ${record.type}${rights}${reach}, of tenant ${tenantId}.`,
          'Shown only now:',
          key,
        ],
      }
    })
  },
})

/** `halfkey keys rotate-signing` */
export const keysRotateSigning = defineCommand({
  name: 'keys rotate-signing',
  summary: 'Create a new key that signs access tokens, and replace those of ID tokens',
  details: `Running processes sign with it within a second. Where HALFKEY_SIGNERS names a key for tokens, that key signs from now on: set it for every process first. Earlier keys stay in /.well-known/jwks.json until the last access token signed by them has expired, so nobody is signed out. The keys that sign ID tokens are replaced too, one for each app, and stay in the key set of their app in the same way. They are always keys of this installation.`,
  options: (command) =>
    command
      .option(
        '--revoke-previous',
        'reject everything that earlier keys signed, including refresh tokens, so that everybody has to sign in again. Use it if a key may have been stolen',
      )
      .option('--local', 'create a key of this installation, although HALFKEY_SIGNERS names one in a hardware module'),
  async run({ revokePrevious: revoke = false, local = false }, context) {
    const { id, previous, retiresAt, remote, idTokenKeys } = await withDeps(context, async (deps) => {
      const rotation = await rotateSigningKey(deps, { revoke, local })
      return { ...rotation, idTokenKeys: await rotateIdTokenKeys(deps, { revoke }) }
    })
    const names = previous.join(', ') || 'none'
    const before = revoke
      ? `Revoked: ${names}. Everybody has to sign in again.`
      : `Published until ${retiresAt?.toISOString()}: ${names}.`
    return {
      data: { id, previous, retiresAt, revoked: revoke, remotePublicKey: remote?.toString('hex') ?? null, idTokenKeys },
      lines: [
        remote === null
          ? `Signing key ${id} is the current one.`
          : `Signing key ${id} is the current one. It is in the hardware module, with the public half ${remote.toString('hex')}.`,
        before,
        `Keys of ID tokens ${revoke ? 'revoked' : 'replaced'}: ${idTokenKeys}.`,
      ],
    }
  },
})

import { createTenant } from '../../tenancy/tenant/service.ts'
import { type Command, readOptions, required, UsageError, withDeps } from './command.ts'

const NAME_CHARS_MAX = 200

/** `halfkey tenants create` */
export const tenantsCreate: Command = {
  name: 'tenants create',
  summary: 'Create a tenant with its default app and admin key',
  usage: '--name NAME',
  async run(args, context) {
    const name = required(tenantsCreate, 'name', readOptions(tenantsCreate, args, { name: { type: 'string' } }).name)
    if (name.length > NAME_CHARS_MAX) throw new UsageError(`--name must have at most ${NAME_CHARS_MAX} characters.`)
    const created = await withDeps(context, (deps) => createTenant(deps, { name, actor: 'cli' }))
    return {
      data: { ...created, name },
      lines: [
        `Tenant ${created.tenantId} (${name}) with the app ${created.appId} (Default).`,
        'Its admin key, shown this once:',
        created.key,
      ],
    }
  },
}

import { createTenant } from '../../../tenancy/tenant/service.ts'
import { defineCommand, shortText, withDeps } from '../command.ts'

/** `halfkey tenants create` */
export const tenantsCreate = defineCommand({
  name: 'tenants create',
  summary: 'Create a tenant with its default app and admin key',
  options: (command) => command.requiredOption('--name <name>', "the tenant's name", shortText('--name')),
  async run({ name }, context) {
    const created = await withDeps(context, (deps) => createTenant(deps, { name, actor: 'cli' }))
    return {
      data: { ...created, name },
      lines: [
        `Tenant ${created.tenantId} (${name}) with the app ${created.appId} (Default).`,
        'Its admin key, shown only now:',
        created.key,
      ],
    }
  },
})

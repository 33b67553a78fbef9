import { grantRuntime, RoleError } from '../../../platform/db/runtime-role.ts'
import { composed } from '../../../platform/security/sealed-values.ts'
import { CommandError, defineCommand } from '../command.ts'

/** `halfkey migrate` */
export const migrate = defineCommand({
  name: 'migrate',
  summary: "Update the database's schema to this release",
  details: `You can run it several times at once: one run applies the migrations, the others wait. A schema of a newer release stays unchanged.
With --grant-to, a role that does not own the tables gets what the service needs, and no more: it cannot change what is immutable, or change or delete updates of the ledger. Run it with this option for every release, as the owner.`,
  options: (command) => command.option('--grant-to <role>', 'the role as which the service connects'),
  async run({ grantTo }, context) {
    const { deps, migrated: applied = [], close } = await context.openDeps({ migrate: true })
    try {
      if (grantTo !== undefined)
        await deps.db.tx((tx) => grantRuntime((text, values) => tx.query(composed(text, values)), grantTo))
    } catch (error) {
      throw error instanceof RoleError ? new CommandError(error.message) : error
    } finally {
      await close()
    }
    const lines = [
      applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.length}: ${applied.join(', ')}`,
    ]
    if (grantTo !== undefined) lines.push(`Granted to ${grantTo} what the service needs.`)
    return { data: { applied, grantedTo: grantTo ?? null }, lines }
  },
})

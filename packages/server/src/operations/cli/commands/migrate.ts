import { defineCommand } from '../command.ts'

/** `halfkey migrate` */
export const migrate = defineCommand({
  name: 'migrate',
  summary: "Update the database's schema to this release",
  details:
    'You can run it several times at once: one run applies the migrations, the others wait. A schema of a newer release stays unchanged.',
  async run(_, context) {
    const { migrated: applied = [], close } = await context.openDeps({ migrate: true })
    await close()
    return {
      data: { applied },
      lines: [applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.length}: ${applied.join(', ')}`],
    }
  },
})

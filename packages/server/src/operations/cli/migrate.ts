import { type Command, readOptions } from './command.ts'

/** `halfkey migrate` */
export const migrate: Command = {
  name: 'migrate',
  summary: "Bring the database's schema up to this release",
  usage: '',
  details: ['Several at once do no harm: one applies, the others wait. A schema of a newer release is left as it is.'],
  async run(args, context) {
    readOptions(migrate, args, {})
    const { migrated, close } = await context.openDeps()
    await close()
    const applied = migrated ?? []
    return {
      data: { applied },
      lines: [applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.length}: ${applied.join(', ')}`],
    }
  },
}

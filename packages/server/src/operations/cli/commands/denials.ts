import { defineCommand, wholeNumber } from '../command.ts'
import { remoteOptions, withRemote } from '../remote.ts'

/** `halfkey denials` */
export const denials = defineCommand({
  name: 'denials',
  summary: 'List the transactions that policies denied, and why',
  details:
    'Newest first, one line for each session, rule and minute. Denials are kept for 30 days. Needs a key with the scope delegated_sessions:read.',
  examples: ['halfkey denials', 'halfkey denials --user usr_…', 'halfkey denials --session dse_…'],
  options: (command) =>
    remoteOptions(command)
      .option('--session <id>', 'only of this delegated session')
      .option('--wallet <id>', 'only of this wallet')
      .option('--user <id>', 'only of this user')
      .option('--limit <count>', 'how many, 1 to 100', wholeNumber('--limit', 1, 100), 20),
  run: ({ session, wallet, user, limit, ...options }) =>
    withRemote(options, async ({ client }) => {
      const query = { sessionId: session, walletId: wallet, userId: user, pageSize: limit }
      const { data, total } = await client.denials.list(query)
      const lines = data.map(({ lastAt, count, sessionId, rule, message }) =>
        [lastAt, `${count}×`, sessionId, rule, message].join('  '),
      )
      return { data: { denials: data, total }, lines: lines.length === 0 ? ['No denials.'] : lines }
    }),
})

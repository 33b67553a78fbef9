import type { Command, Result } from './command.ts'

const DOCS = 'Configuration is read from the environment; the documentation lists every variable.'

/** What there is to type, or all about one command. */
export function help(commands: readonly Command[], about: Command | undefined): Result {
  if (about !== undefined) {
    const usage = `halfkey ${about.name} ${about.usage}`.trimEnd()
    const lines = [`Usage: ${usage} [--json]`, '', `${about.summary}.`, ...(about.details ?? [])]
    return { data: { command: about.name, summary: about.summary, usage }, lines }
  }
  const all = [
    { name: 'serve', summary: 'Start the service (the default)' },
    ...commands,
    { name: 'help', summary: 'Say this, or all about one command' },
  ]
  const width = Math.max(...all.map(({ name }) => name.length))
  return {
    data: { commands: all.map(({ name, summary }) => ({ name, summary })) },
    lines: [
      'Usage: halfkey <command> [options]',
      '',
      ...all.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`),
      '',
      'With --json a command prints its result as one line of JSON, and an error likewise on standard error.',
      'Exit codes: 0 done, 1 failed, 2 wrong usage, 78 bad configuration.',
      DOCS,
    ],
  }
}

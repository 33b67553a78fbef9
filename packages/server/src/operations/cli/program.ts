import { Argument, Command, CommanderError, type Option } from 'commander'
import { VERSION } from '../../platform/version.ts'
import { type CliCommand, UsageError, type Work } from './command.ts'
import { completionScript, SHELLS } from './completion.ts'

const FOOTER = `
"halfkey help <command>" explains a command. "halfkey completion" lets your shell complete them.
With --json a command prints its result as one line of JSON, and an error likewise on standard error.
Exit codes: 0 done, 1 failed, 2 wrong usage, 78 bad configuration.
Configuration is read from the environment; the documentation lists every variable.`

/** A command as it is typed, without `halfkey`. */
const nameOf = (command: Command): string =>
  command.parent === null ? '' : `${nameOf(command.parent)} ${command.name()}`.trim()

/** A command and all below it. */
const treeOf = (command: Command): Command[] => [command, ...command.commands.flatMap((each) => treeOf(each))]

/**
 * The options that must be given. Commander looks for them before it looks for unknown ones, so that a mistyped `--nam` would be
 * answered by "--name is missing": it is not told, and they are checked once everything else is right.
 */
const needed = new WeakSet<Option>()

function checkNeeded(command: Command): void {
  for (const option of command.options)
    if (needed.has(option) && String(command.getOptionValue(option.attributeName()) ?? '').trim() === '')
      command.error(`${option.long} is missing`)
}

function usageOf(command: Command): string {
  const options = command.options.map((option) => (needed.has(option) ? option.flags : `[${option.flags}]`))
  return ['halfkey', nameOf(command), ...command.registeredArguments.map((each) => `<${each.name()}>`), ...options]
    .filter((word) => word !== '')
    .join(' ')
}

/** The commands that do something: groups such as `keys` are left out. */
const listOf = (command: Command) =>
  treeOf(command)
    .filter((each) => each.commands.length === 0)
    .map((each) => ({ name: nameOf(each), summary: each.summary() }))

function overview(program: Command): string {
  const list = listOf(program)
  const width = Math.max(...list.map(({ name }) => name.length))
  const lines = list.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`)
  return ['Usage: halfkey <command> [options]', '', ...lines, FOOTER].join('\n')
}

/** The same for programs. */
function describe(command: Command): Record<string, unknown> {
  if (command.commands.length > 0) return { commands: listOf(command) }
  return { command: nameOf(command), summary: command.summary(), usage: usageOf(command) }
}

/** Rewords commander's messages, and says what to do next. */
function usageError(command: Command, { code, message }: CommanderError): UsageError {
  if (code === 'commander.help') return new UsageError(`${nameOf(command)} needs a command. Run: halfkey help`)
  const said = message
    .replace(/^error: /, '')
    .replace(/\.?(?:\n\((.*)\))?$/, (_, suggestion?: string) => (suggestion === undefined ? '.' : `. ${suggestion}`))
  const next = command.commands.length > 0 ? 'Run: halfkey help' : `Usage: ${usageOf(command)}`
  return new UsageError(`${said.charAt(0).toUpperCase()}${said.slice(1)} ${next}`)
}

function createProgram(commands: readonly CliCommand[], found: (work: Work) => void): Command {
  const program = new Command('halfkey').version(VERSION).option('--json', 'print the result as one line of JSON')
  program
    .command('serve')
    .summary('Start the service (the default)')
    .action(() => {
      throw new UsageError('serve takes no options: the service reads its configuration from the environment.')
    })
  for (const { name, parser } of commands) {
    const [first = '', second] = name.split(' ')
    const group = () => program.commands.find((each) => each.name() === first) ?? program.command(first)
    const parent = second === undefined ? program : group()
    parent.addCommand(parser(found))
  }
  program
    .command('completion')
    .summary('Print a script that makes your shell complete commands and options')
    .description('For bash: source <(halfkey completion bash). For fish: halfkey completion fish | source.')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .action((shell: (typeof SHELLS)[number]) => {
      const script = completionScript(shell, program)
      found(async () => ({ data: { shell, script }, lines: [script] }))
    })
  program
    .command('help')
    .summary('Show this list, or the help of one command')
    .argument('[command...]')
    .action((names: string[]) => {
      const command = treeOf(program).find((each) => nameOf(each) === names.join(' '))
      if (command === undefined) throw new UsageError(`There is no command "${names.join(' ')}". Run: halfkey help`)
      command.help()
    })
  return program
}

/**
 * Refuses an option that follows one which needs a value: commander would take it for the value, so that `--name --app=x`,
 * from a shell variable that is empty, would lose `--app`. @throws UsageError
 */
function checkValues(program: Command, words: readonly string[]): void {
  const command = treeOf(program).findLast((each) => words.join(' ').startsWith(nameOf(each))) ?? program
  for (const [at, word] of words.entries()) {
    const option = command.options.find(({ long, short }) => word === long || word === short)
    const next = words[at + 1]
    if (option?.required && next !== undefined && /^--?[a-z]/i.test(next))
      throw new UsageError(
        `${word} needs a value. If the value is "${next}", write ${word}=${next}. Usage: ${usageOf(command)}`,
      )
  }
}

/** Parses a command line, without `--json`. @returns the work to do @throws UsageError */
export function readCommandLine(commands: readonly CliCommand[], words: readonly string[]): Work {
  let work: Work | undefined
  let shown = ''
  const program = createProgram(commands, (each) => {
    work = each
  })
  program.hook('preAction', (_, command) => checkNeeded(command))
  for (const command of treeOf(program)) {
    for (const option of command.options.filter(({ mandatory }) => mandatory)) {
      needed.add(option)
      option.makeOptionMandatory(false)
    }
    command
      .helpCommand(false)
      .configureHelp({ showGlobalOptions: true, commandUsage: usageOf })
      .configureOutput({
        writeOut: (text) => {
          shown += text
        },
        outputError: () => {},
        writeErr: () => {},
      })
      .exitOverride((error) => {
        if (error.exitCode > 0) throw usageError(command, error)
        const data = error.code === 'commander.version' ? { version: VERSION } : describe(command)
        work = async () => ({ data, lines: [shown.trimEnd()] })
        throw error
      })
  }
  program.configureHelp({ formatHelp: () => overview(program) })
  checkValues(program, words)
  try {
    program.parse(words.length === 0 ? ['help'] : words, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
  }
  if (work === undefined) throw new UsageError('No command was given. Run: halfkey help')
  return work
}

import { styleText } from 'node:util'

/** The message of the line that each request writes. */
export const REQUEST = 'request'

const COLOURS = { 20: ['gray', 'debug'], 30: ['cyan', 'info '], 40: ['yellow', 'warn '], 50: ['red', 'error'] } as const

const ERROR = 50
const STACK_LINE = /\n\s+at .*/g

/** Terminals obey control characters, and errors may quote other people's text. */
const printable = (text: string): string =>
  text.replace(/[^\P{Cc}\n\t]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

interface LogLine {
  level: number
  time: string
  msg: string
  err?: { message: string; stack?: string }
  [field: string]: unknown
}

/**
 * A log line as a person reads it, coloured where standard error is a terminal that has colours. A warning names its cause;
 * where in the code that came from is shown for errors, and with `stacks`.
 */
export function terminalLine(line: LogLine, stacks: boolean): { message: string; text: string } {
  const { level, time, msg, err, ...fields } = line
  const paint = (format: Parameters<typeof styleText>[0], text: string) =>
    styleText(format, text, { stream: process.stderr })
  const [colour, name] = COLOURS[level as keyof typeof COLOURS] ?? COLOURS[50]
  const about = Object.entries(fields).map(
    ([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const told = err === undefined ? '' : `\n${err.stack ?? err.message}`
  const cause = stacks || level >= ERROR ? told : told.replaceAll(STACK_LINE, '')
  const text = printable(`${msg}${about.join('')}${cause}`)
  const [first = '', ...rest] = text.split('\n')
  const clock = paint('gray', new Date(time).toTimeString().slice(0, 8))
  return {
    message: msg,
    text: [`${clock} ${paint(colour, name)} ${first}`, ...rest.map((each) => paint('gray', `  ${each}`))].join('\n'),
  }
}

import { type DestinationStream, destination, type Logger as PinoLogger, pino, stdSerializers } from 'pino'
import { REQUEST, terminalLine } from './terminal-line.ts'

export type Logger = Pick<PinoLogger, 'debug' | 'info' | 'warn' | 'error'>

/** Everything that opens something, by the form of its text: API keys, sign-in codes, dashboard links, webhook secrets, delegate, portal and refresh tokens, JWTs. */
const SECRETS =
  /hk_rt_[\w.-]{8,}|(?:hk_(?:sk|pk|sc|dl)_|whsec_|dst_|prt_|ag[car]_)[A-Za-z0-9+/=_-]{8,}|eyJ[\w-]{10,}\.[\w-]+\.[\w-]+/g

/** Replaces whatever looks like a secret. For text that a caller chose (a request id) or that a library wrote (an error). */
export function redact(text: string): string {
  return text.replace(SECRETS, '[redacted]')
}

/** How many errors of an aggregate error are logged. */
const INNER_ERRORS_MAX = 5

function serialiseError(error: Error): object {
  const { type, message, stack } = stdSerializers.err(error)
  const { code, errors } = error as { code?: unknown; errors?: unknown }
  const inner = Array.isArray(errors) ? errors.filter((each) => each instanceof Error).slice(0, INNER_ERRORS_MAX) : []
  // Neither `detail` nor parameters of a database error: they repeat the row's values.
  return {
    type,
    message: redact(message),
    stack: redact(stack ?? ''),
    ...(typeof code === 'string' ? { code } : {}),
    ...(inner.length > 0 ? { errors: inner.map(serialiseError) } : {}),
  }
}

export interface OpenLog {
  log: Logger
  /** Writes out what is buffered. */
  flush(): void
}

/** JSON lines on standard error (standard output is for people), written in the background and flushed at exit. */
export function openLog(level: string, stream?: DestinationStream): OpenLog {
  const sink = stream ?? destination({ dest: 2, sync: false, minLength: 8_192, periodicFlush: 100 })
  return {
    log: createLogger(level, sink),
    flush() {
      if ('flushSync' in sink) (sink as { flushSync(): void }).flushSync()
    },
  }
}

/** Lines for a person at a terminal: the time, the message, what it is about. Requests, and the stacks of warnings, are shown at `debug` only. */
export function openTerminalLog(level: string, write: (line: string) => void): OpenLog {
  const isDebug = level === 'debug'
  const sink = {
    write(json: string) {
      const line = terminalLine(JSON.parse(json), isDebug)
      if (isDebug || line.message !== REQUEST) write(line.text)
    },
  }
  return { log: createLogger(level, sink), flush: () => {} }
}

function createLogger(level: string, sink: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      serializers: { err: serialiseError },
    },
    sink,
  )
}

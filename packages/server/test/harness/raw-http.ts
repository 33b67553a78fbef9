import { connect } from 'node:net'

/** One answer out of a connection's bytes. */
export interface RawAnswer {
  status: number
  headers: Record<string, string>
  body: string
}

const TIMEOUT_MS = 20_000

/**
 * Splits what a connection sent into its answers. Bodies are as long as Content-Length says, but for the last one if the
 * connection `hasEnded`: an answer to HEAD has none.
 */
function parseAnswers(text: string, hasEnded = true): RawAnswer[] {
  const answers: RawAnswer[] = []
  for (let rest = text; rest.startsWith('HTTP/1.1 '); ) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0) break
    const [first, ...lines] = rest.slice(0, end).split('\r\n') as [string, ...string[]]
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
    )
    const length = Number(headers['content-length'] ?? 0)
    if (!hasEnded && rest.length < end + 4 + length) break
    answers.push({ status: Number(first.split(' ')[1]), headers, body: rest.slice(end + 4, end + 4 + length) })
    rest = rest.slice(end + 4 + length)
  }
  return answers
}

/**
 * Writes these very bytes, in these pieces, to a new connection, and answers all that comes back until `enough` of it
 * is there or the other side closes.
 */
export function sendBytes(
  url: string,
  pieces: (string | Buffer)[],
  enough: (answers: RawAnswer[]) => boolean = () => false,
): Promise<RawAnswer[]> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    let text = ''
    const socket = connect(Number(port), hostname)
    const finish = () => {
      socket.destroy()
      resolve(parseAnswers(text))
    }
    socket.setTimeout(TIMEOUT_MS, () => {
      socket.destroy()
      reject(new Error(`no answer and no end within ${TIMEOUT_MS} ms; got: ${text.slice(0, 300)}`))
    })
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (enough(parseAnswers(text, false))) finish()
    })
    socket.on('close', finish)
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // What was refused while it was still being sent may end so; the answer came before.
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error)
    })
    const [last, ...before] = pieces.toReversed()
    const write = async () => {
      for (const piece of before.toReversed())
        await new Promise<void>((written) => socket.write(piece, () => written()))
      if (last !== undefined) socket.write(last)
    }
    void write()
  })
}

/** A request's text. `Connection: close`, so that its answer is the connection's end. */
export function requestText(line: string, headers: Record<string, string> = {}, body = ''): string {
  const all = { host: 'localhost', connection: 'close', ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${line} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

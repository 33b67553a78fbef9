import { createServer, type Socket } from 'node:net'
import { eventually } from './harness.ts'

/** An email as a mail server took it. */
export interface ReceivedMail {
  from: string
  to: string[]
  /** The headers by their names in lower case, unfolded, as they were sent. */
  headers: Record<string, string>
  /** The parts by their media type, decoded. */
  parts: Record<string, string>
  /** The message as it was sent. */
  raw: string
}

export interface SmtpServer {
  /** For HALFKEY_SMTP_URL. */
  url: string
  received: ReceivedMail[]
  /** What the server answers to the next recipients: `550 no such user`. Null: it takes them. */
  refuse(answer: string | null): void
  /** The next email to an address, in any case, that was not given out yet. */
  next(address: string): Promise<ReceivedMail>
  close(): Promise<void>
}

function decoded(encoding: string | undefined, body: string): string {
  if (encoding === 'base64') return Buffer.from(body, 'base64').toString()
  if (encoding !== 'quoted-printable') return body
  const bytes = body
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}

function split(text: string): { headers: Record<string, string>; body: string } {
  const end = text.indexOf('\r\n\r\n')
  const lines = text
    .slice(0, end)
    .replace(/\r\n[ \t]+/g, ' ')
    .split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  return { headers, body: text.slice(end + 4) }
}

function parse(from: string, to: string[], raw: string): ReceivedMail {
  const { headers, body } = split(raw)
  const boundary = /boundary="([^"]+)"/.exec(headers['content-type'] ?? '')?.[1]
  const texts =
    boundary === undefined
      ? [raw]
      : body
          .split(`--${boundary}`)
          .slice(1, -1)
          .map((part) => part.slice(2))
  const parts = Object.fromEntries(
    texts.map((text) => {
      const part = split(text)
      const type = (part.headers['content-type'] ?? '').split(';')[0] as string
      return [type, decoded(part.headers['content-transfer-encoding'], part.body).replaceAll('\r\n', '\n')]
    }),
  )
  return { from, to, headers, parts, raw }
}

/** A real mail server on loopback (RFC 5321), without TLS, that keeps everything it gets. */
export async function startSmtpServer(): Promise<SmtpServer> {
  const received: ReceivedMail[] = []
  const given = new Set<ReceivedMail>()
  const sockets = new Set<Socket>()
  let refusal: string | null = null

  function converse(socket: Socket): void {
    let buffered = ''
    let from = ''
    let to: string[] = []
    let inData = false
    const say = (line: string) => socket.write(`${line}\r\n`)
    const command = (line: string) => {
      const verb = line.slice(0, 4).toUpperCase()
      if (verb === 'EHLO') return say('250-localhost\r\n250-8BITMIME\r\n250 SMTPUTF8')
      if (verb === 'MAIL') {
        from = /<(.*)>/.exec(line)?.[1] ?? ''
        to = []
        return say('250 ok')
      }
      if (verb === 'RCPT') {
        if (refusal !== null) return say(refusal)
        to.push(/<(.*)>/.exec(line)?.[1] ?? '')
        return say('250 ok')
      }
      if (verb === 'DATA') {
        inData = true
        return say('354 go on')
      }
      if (verb === 'QUIT') return socket.end('221 bye\r\n')
      return say('250 ok')
    }
    socket.on('data', (chunk) => {
      buffered += chunk.toString('latin1')
      for (;;) {
        const end = buffered.indexOf(inData ? '\r\n.\r\n' : '\r\n')
        if (end < 0) return
        const text = Buffer.from(buffered.slice(0, end), 'latin1').toString()
        buffered = buffered.slice(end + (inData ? 5 : 2))
        if (!inData) command(text)
        else {
          inData = false
          received.push(parse(from, to, text.replace(/^\.\./gm, '.')))
          say('250 taken')
        }
      }
    })
    socket.on('error', () => {})
    say('220 localhost ESMTP')
  }

  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    converse(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    url: `smtp://127.0.0.1:${port}`,
    received,
    refuse(answer) {
      refusal = answer
    },
    next(address) {
      return eventually(`an email to ${address}`, async () => {
        const isNext = (mail: ReceivedMail) =>
          !given.has(mail) && mail.to.some((one) => one.toLowerCase() === address.toLowerCase())
        const found = received.find(isNext)
        if (found !== undefined) given.add(found)
        return found
      })
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

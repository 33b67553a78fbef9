// A real DNS server on a local port, UDP and TCP, whose answers the test decides (RFC 1035, section 4; AAAA: RFC 3596).
import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { type AddressInfo, createServer, type Server, type Socket, SocketAddress } from 'node:net'

const TYPE_BY_CODE: Record<number, string> = { 1: 'A', 5: 'CNAME', 16: 'TXT', 28: 'AAAA' }
const RCODE = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5, truncated: 0 }
/** The header's TC bit. */
const TRUNCATED = 0x0200

/** One record of an answer; `ttlSeconds` is 60 when absent. A TXT text may be given in the pieces it is sent in. */
export type DnsRecord = { ttlSeconds?: number } & (
  | { type: 'A' | 'AAAA'; address: string }
  | { type: 'TXT'; text: string | string[] }
  | { type: 'CNAME'; target: string }
)

/**
 * Records (those of other types than asked for are left out), an error, `truncated` (nothing, and that there is more by TCP),
 * or no answer at all.
 */
export type DnsAnswer = DnsRecord[] | 'SERVFAIL' | 'NXDOMAIN' | 'REFUSED' | 'truncated' | 'silence'

/**
 * What was asked. `count` is 1 for the first question of this name and type. A question that is sent again, for its answer
 * took too long, has the `id` of before.
 */
interface DnsQuestion {
  id: number
  name: string
  type: string
  count: number
  transport: 'udp' | 'tcp'
}

/** A running server; names nobody set are NXDOMAIN. */
export interface DnsServer {
  /** `127.0.0.1:port`, as resolvers take it */
  address: string
  questions: DnsQuestion[]
  /** A function is asked for each question anew, so that answers can change between them. Names ignore case. */
  set(name: string, answer: DnsAnswer | ((question: DnsQuestion) => DnsAnswer)): void
  close(): Promise<void>
}

/** Starts a DNS server on a free port of 127.0.0.1. */
export async function startDnsServer(): Promise<DnsServer> {
  const zone = new Map<string, (question: DnsQuestion) => DnsAnswer>()
  const questions: DnsQuestion[] = []
  // Tests ask hundreds of questions at once, and what does not fit is dropped without a word.
  const socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 })

  const answerFor = (id: number, name: string, type: string, transport: 'udp' | 'tcp'): DnsAnswer => {
    const count = 1 + questions.filter((asked) => asked.name === name && asked.type === type).length
    const question = { id, name, type, count, transport }
    questions.push(question)
    return zone.get(name)?.(question) ?? 'NXDOMAIN'
  }
  const replyTo = (query: Buffer, transport: 'udp' | 'tcp'): Buffer | null => {
    const { name, type, end } = readQuestion(query)
    const answer = answerFor(query.readUInt16BE(0), name.toLowerCase(), type, transport)
    if (answer === 'silence') return null
    const flags = typeof answer === 'string' ? RCODE[answer] | (answer === 'truncated' ? TRUNCATED : 0) : 0
    const records = typeof answer === 'string' ? [] : withAliasesFollowed(zone, name, type, answer)
    return writeReply(query.subarray(0, end), flags, records)
  }
  socket.on('message', (query: Buffer, peer: RemoteInfo) => {
    const reply = replyTo(query, 'udp')
    if (reply !== null) socket.send(reply, peer.port, peer.address)
  })
  const connections = new Set<Socket>()
  const server = createServer((connection) => {
    connections.add(connection)
    connection.on('error', () => connection.destroy()).on('close', () => connections.delete(connection))
    answerStream(connection, (query) => replyTo(query, 'tcp'))
  })
  await listenOnOnePort(socket, server)

  return {
    address: `127.0.0.1:${socket.address().port}`,
    questions,
    set: (name, answer) => zone.set(name.toLowerCase(), typeof answer === 'function' ? answer : () => answer),
    async close() {
      for (const connection of connections) connection.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
      await new Promise<void>((resolve) => socket.close(() => resolve()))
    },
  }
}

const PORTS_TRIED_MAX = 100

/** Makes both listen on the same port, of which one that TCP was given may be somebody else's for UDP. */
async function listenOnOnePort(socket: UdpSocket, server: Server): Promise<void> {
  for (let tried = 1; ; tried += 1) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const bound = await new Promise<boolean>((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException) => {
        socket.off('listening', succeeded)
        if (error.code !== 'EADDRINUSE' || tried === PORTS_TRIED_MAX) reject(error)
        else resolve(false)
      }
      const succeeded = () => {
        socket.off('error', failed)
        resolve(true)
      }
      socket.once('error', failed).once('listening', succeeded).bind(port, '127.0.0.1')
    })
    if (bound) return
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
}

/** Messages over TCP have their length before them (RFC 1035, section 4.2.2). */
function answerStream(connection: Socket, replyTo: (query: Buffer) => Buffer | null): void {
  let rest = Buffer.alloc(0)
  connection.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
      const end = 2 + rest.readUInt16BE(0)
      const reply = replyTo(rest.subarray(2, end))
      rest = rest.subarray(end)
      if (reply === null) continue
      const length = Buffer.alloc(2)
      length.writeUInt16BE(reply.length)
      connection.write(Buffer.concat([length, reply]))
    }
  })
}

type OwnedRecord = { owner: string; record: DnsRecord }

/** As a recursive server would: the alias, and behind it what its target has, up to four aliases far. */
function withAliasesFollowed(
  zone: Map<string, (question: DnsQuestion) => DnsAnswer>,
  name: string,
  type: string,
  answer: DnsRecord[],
): OwnedRecord[] {
  const owned: OwnedRecord[] = []
  let owner = name
  let records: DnsAnswer = answer
  for (let hops = 0; hops < 5 && typeof records !== 'string'; hops++) {
    const fitting: DnsRecord[] = records.filter((record) => record.type === type || record.type === 'CNAME')
    for (const record of fitting) owned.push({ owner, record })
    const alias = fitting.find((record) => record.type === 'CNAME')
    if (!alias || type === 'CNAME') break
    owner = alias.target.toLowerCase()
    records = zone.get(owner)?.({ id: 0, name: owner, type, count: 1, transport: 'tcp' }) ?? 'NXDOMAIN'
  }
  return owned
}

function readQuestion(query: Buffer): { name: string; type: string; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const code = query.readUInt16BE(at + 1)
  return { name: labels.join('.'), type: TYPE_BY_CODE[code] ?? String(code), end: at + 5 }
}

function writeReply(queryHead: Buffer, flags: number, records: OwnedRecord[]): Buffer {
  const reply = Buffer.from(queryHead)
  // An answer, authoritative, recursion desired and available.
  reply.writeUInt16BE(0x8580 | flags, 2)
  reply.writeUInt16BE(1, 4)
  reply.writeUInt16BE(records.length, 6)
  // No authority and additional records: EDNS of the question is not answered.
  reply.writeUInt32BE(0, 8)
  return Buffer.concat([reply, ...records.map(({ owner, record }) => writeRecord(owner, record))])
}

function writeRecord(owner: string, record: DnsRecord): Buffer {
  const data = recordData(record)
  const fixed = Buffer.alloc(10)
  fixed.writeUInt16BE(Number(Object.keys(TYPE_BY_CODE).find((code) => TYPE_BY_CODE[Number(code)] === record.type)), 0)
  fixed.writeUInt16BE(1, 2)
  fixed.writeUInt32BE(record.ttlSeconds ?? 60, 4)
  fixed.writeUInt16BE(data.length, 8)
  return Buffer.concat([writeName(owner), fixed, data])
}

function recordData(record: DnsRecord): Buffer {
  if (record.type === 'CNAME') return writeName(record.target)
  if (record.type === 'TXT') return Buffer.concat([record.text].flat().map(writeText))
  return record.type === 'A' ? Buffer.from(record.address.split('.').map(Number)) : writeIPv6(record.address)
}

/** The 16 bytes of an address in any notation without an embedded IPv4 tail. */
function writeIPv6(address: string): Buffer {
  const { address: canonical } = new SocketAddress({ address, family: 'ipv6' })
  const [head = '', tail] = canonical.split('::')
  const words = (text: string) =>
    text
      .split(':')
      .filter(Boolean)
      .map((word) => Number.parseInt(word, 16))
  const before = words(head)
  const after = tail === undefined ? [] : words(tail)
  const all = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 0xff]))
}

function writeName(name: string): Buffer {
  return Buffer.concat([...name.split('.').filter(Boolean).map(writeText), Buffer.alloc(1)])
}

function writeText(text: string): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.from([bytes.length]), bytes])
}

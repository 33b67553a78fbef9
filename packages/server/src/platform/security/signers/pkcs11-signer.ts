import { type ChildProcess, fork } from 'node:child_process'
import { KeyServiceError, type KeyServiceFailure } from '../key-services/key-service.ts'
import { type Pkcs11Address, readPkcs11Address } from '../key-services/pkcs11.ts'

/** What the process of a key is asked, and what it answers. Bytes are base64. */
export interface SignRequest {
  id: number
  address: Pkcs11Address
  action: 'publicKey' | 'sign'
  bytes: string
}
export type SignAnswer = { id: number } & ({ bytes: string } | { failure: KeyServiceFailure; message: string })

/** A key outside this process, before its public half is known. */
export interface RemoteKey {
  /** Raw Ed25519, as the token says. @throws KeyServiceError */
  publicKey(): Promise<Buffer>
  /** @throws KeyServiceError */
  sign(payload: Buffer): Promise<Buffer>
  close(): void
}

/** From when the module is asked. */
const CALL_MS = 5_000
/** How long a request may take with its turn: a burst waits, and nobody waits for long. */
const TURN_MS = 15_000
/** After a call without an answer others are refused at once for this long: a token that hangs must not hold every request. */
const REST_MS = 2_000
/** Requests that may wait for one process. More of them would hardly get their turn. */
const WAITING_MAX = 1_000

/** As `.ts` where the source runs, as `.js` where the build does. */
const PROGRAM = new URL(
  `./pkcs11-signer-process${import.meta.url.slice(import.meta.url.lastIndexOf('.'))}`,
  import.meta.url,
)

interface Waiting {
  resolve(bytes: Buffer): void
  reject(error: KeyServiceError): void
  limit: NodeJS.Timeout
  request: SignRequest
}

/**
 * An Ed25519 key pair in a PKCS #11 token. A separate process holds the token open, because such libraries block, may hang
 * or end the process that loads them, and is replaced after anything went wrong.
 * @throws KeyServiceAddressError
 */
export function openPkcs11Key(text: string): RemoteKey {
  const address = readPkcs11Address(text)
  const waiting = new Map<number, Waiting>()
  let last = 0
  let restsUntil = 0
  let child: ChildProcess | undefined
  /** What the process has been asked: one request at a time, so that none is late for those before it. */
  let handed: { id: number; deadline: NodeJS.Timeout } | undefined

  const errorOf = (failure: KeyServiceFailure, message: string) =>
    new KeyServiceError(failure, `PKCS #11, signing with ${address.object}: ${message}`)

  function take(id: number): Waiting | undefined {
    const found = waiting.get(id)
    waiting.delete(id)
    clearTimeout(found?.limit)
    return found
  }

  /** Gives up a process: nothing that it was asked will be answered. */
  function giveUp(lost: ChildProcess, failure: KeyServiceFailure, message: string): void {
    if (child !== lost) return
    child = undefined
    clearTimeout(handed?.deadline)
    handed = undefined
    lost.kill('SIGKILL')
    for (const id of [...waiting.keys()]) take(id)?.reject(errorOf(failure, message))
  }

  /** Hands the oldest request to the process, unless it has one. */
  function handOver(asked: ChildProcess): void {
    const [oldest] = waiting
    if (handed !== undefined || oldest === undefined) return
    const [id, { request }] = oldest
    const deadline = setTimeout(() => {
      restsUntil = performance.now() + REST_MS
      giveUp(asked, 'unavailable', `it did not answer within ${CALL_MS / 1_000} s`)
    }, CALL_MS)
    handed = { id, deadline }
    asked.send(request, (error) => error !== null && giveUp(asked, 'unavailable', error.message))
  }

  function begin(): ChildProcess {
    const made = fork(PROGRAM, { execArgv: [] })
    child = made
    made.on('message', (answer: SignAnswer) => {
      if (child !== made) return
      clearTimeout(handed?.deadline)
      handed = undefined
      const found = take(answer.id)
      if ('bytes' in answer) {
        found?.resolve(Buffer.from(answer.bytes, 'base64'))
        return handOver(made)
      }
      found?.reject(errorOf(answer.failure, answer.message))
      giveUp(made, answer.failure, answer.message)
    })
    made.once('error', (error) => giveUp(made, 'unavailable', error.message))
    made.once('exit', (code, signal) =>
      giveUp(made, 'unavailable', `the library ended its process (${signal ?? code})`),
    )
    // A process that waits for work keeps no command from ending. The deadline of a request does.
    made.unref()
    made.channel?.unref()
    return made
  }

  function ask(action: SignRequest['action'], payload: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (performance.now() < restsUntil) return reject(errorOf('unavailable', 'it did not answer shortly before'))
      if (waiting.size >= WAITING_MAX) return reject(errorOf('unavailable', 'too many requests wait for it'))
      const asked = child ?? begin()
      last += 1
      const id = last
      const limit = setTimeout(
        () => take(id)?.reject(errorOf('unavailable', 'too many requests were before it')),
        TURN_MS,
      )
      const request: SignRequest = { id, address, action, bytes: payload.toString('base64') }
      waiting.set(id, { resolve, reject, limit, request })
      handOver(asked)
    })
  }

  return {
    publicKey: () => ask('publicKey', Buffer.alloc(0)),
    sign: (payload) => ask('sign', payload),
    close() {
      if (child !== undefined) giveUp(child, 'unavailable', 'this process is ending')
    },
  }
}

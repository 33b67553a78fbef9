// Child processes of a benchmark: each ends with it, by its process id.
import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'

const ENDING_MS = 12_000

const living = new Set<ChildProcess>()
const lastActs = new Set<() => void>()

/** Registers a child that this module did not fork. */
export function adopt(child: ChildProcess): ChildProcess {
  living.add(child)
  child.once('exit', () => living.delete(child))
  return child
}

/** Something to do when the process ends, however it ends; must not wait. Answers how to take it back. */
export function atTheEnd(act: () => void): () => void {
  lastActs.add(act)
  return () => lastActs.delete(act)
}

process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL')
  for (const act of lastActs) act()
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

/** Ends a child with `signal`, by force after a while. Answers once it is gone. */
export async function end(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill(signal)
  const force = setTimeout(() => child.kill('SIGKILL'), ENDING_MS)
  await gone
  clearTimeout(force)
}

/** A process of `bench/child/` that answers calls. */
export interface Helper {
  pid: number
  /** @throws Error when the child failed at it, ended, or took longer than `timeoutMs` */
  call<T>(name: string, argument?: unknown, timeoutMs?: number): Promise<T>
  end(): Promise<void>
}

const CALL_MS = 300_000

/** Starts `bench/child/<name>.ts`. Its memory limit is above Node's default: it may keep an id for each delivery. */
export function startHelper(name: string): Helper {
  const child = adopt(
    fork(join(import.meta.dirname, 'child', `${name}.ts`), { execArgv: ['--max-old-space-size=4096'] }),
  )
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let calls = 0
  child.on('message', (message: { id: number; result?: unknown; error?: string }) => {
    const call = waiting.get(message.id)
    waiting.delete(message.id)
    if (message.error === undefined) call?.resolve(message.result)
    else call?.reject(new Error(`${name}: ${message.error}`))
  })
  child.once('exit', () => {
    for (const call of waiting.values()) call.reject(new Error(`${name} ended`))
  })
  return {
    pid: child.pid as number,
    call<T>(method: string, argument?: unknown, timeoutMs = CALL_MS): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        calls += 1
        const id = calls
        const timer = setTimeout(() => reject(new Error(`${name} ${method}: not within ${timeoutMs} ms`)), timeoutMs)
        const settle =
          <V>(act: (value: V) => void) =>
          (value: V) => {
            clearTimeout(timer)
            act(value)
          }
        waiting.set(id, { resolve: settle(resolve as (value: unknown) => void), reject: settle(reject) })
        child.send({ id, method, argument })
      })
    },
    end: () => end(child, 'SIGKILL'),
  }
}

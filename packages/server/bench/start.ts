// From the process's start to its first answers, and what an idle service holds in memory.
import { type ChildProcess, spawn } from 'node:child_process'
import { get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { newApiKey } from '../src/platform/security/api-key.ts'
import { adopt, end } from './children.ts'
import { median, ms, pause } from './figures.ts'
import type { Outcome } from './main.ts'
import { memoryMb } from './proc.ts'
import { type Row, step } from './report.ts'
import { makeFolder, spawnService } from './service.ts'

const FIRST_MAX_MS = 6_000
const LATER_MAX_MS = 3_000
const IDLE_MAX_MB = 200
const ASK_EVERY_MS = 5
const GIVE_UP_MS = 60_000

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
}

function statusOf(port: number, path: string, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve) => {
    const request = get({ port, host: '127.0.0.1', path, headers, agent: false }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    request.on('error', () => resolve(0))
  })
}

/** Asks again and again, each a few milliseconds after the answer before. */
async function until200(
  child: ChildProcess,
  port: number,
  path: string,
  headers?: Record<string, string>,
): Promise<void> {
  const deadline = performance.now() + GIVE_UP_MS
  while ((await statusOf(port, path, headers)) !== 200) {
    if (child.exitCode !== null || performance.now() > deadline) throw new Error(`no 200 from ${path}`)
    await pause(ASK_EVERY_MS)
  }
}

interface Started {
  child: ChildProcess
  readyMs: number
  authenticatedMs: number
}

async function timeStart(folder: string, key: string): Promise<Started> {
  const port = await freePort()
  const startedAt = performance.now()
  const child = spawnService(folder, { PORT: String(port), HALFKEY_ADMIN_KEY: key })
  child.stdout?.resume()
  await until200(child, port, '/readyz')
  const readyMs = performance.now() - startedAt
  await until200(child, port, '/v1/users', { 'x-api-key': key })
  return { child, readyMs, authenticatedMs: performance.now() - startedAt }
}

const BARE = `import Fastify from 'fastify'
const app = Fastify()
app.get('/readyz', async () => ({ ok: true }))
await app.listen({ host: '127.0.0.1', port: Number(process.env.BARE_PORT) })`

/** Node and Fastify alone: nothing that serves HTTP with them starts sooner. */
async function timeBare(): Promise<number> {
  const port = await freePort()
  const startedAt = performance.now()
  const child = adopt(
    spawn(process.execPath, ['--input-type=module', '-e', BARE], {
      cwd: join(import.meta.dirname, '..'),
      env: { ...process.env, BARE_PORT: String(port) },
      stdio: 'ignore',
    }),
  )
  await until200(child, port, '/readyz')
  const tookMs = performance.now() - startedAt
  await end(child)
  return tookMs
}

interface Round {
  first: Started
  later: Started
  adopted: Started
  bareMs: number
  idleMb: number
}

/** A new installation, started, stopped, started, killed, started. */
async function round(idleMs: number): Promise<Round> {
  const folder = makeFolder()
  const key = newApiKey('secret')
  try {
    const first = await timeStart(folder.path, key)
    await end(first.child)
    const later = await timeStart(folder.path, key)
    step(`idle for ${idleMs / 1000} s`)
    await pause(idleMs)
    const idleMb = memoryMb(later.child.pid as number).now
    if (later.child.exitCode !== null) throw new Error(`the idle service ended with ${later.child.exitCode}`)
    await end(later.child, 'SIGKILL')
    const adopted = await timeStart(folder.path, key)
    await end(adopted.child)
    return { first, later, adopted, idleMb, bareMs: await timeBare() }
  } finally {
    folder.remove()
  }
}

function startRow(what: string, starts: readonly Started[], maxMs: number, raw: string): Row {
  const answered = starts.map((each) => each.authenticatedMs)
  return {
    what,
    measured: `${ms(median(answered))} (readyz ${ms(median(starts.map((each) => each.readyMs)))})`,
    floor: `< ${maxMs / 1000} s`,
    holds: median(answered) < maxMs,
    raw,
    runs: answered.map(ms).join(', '),
  }
}

/** `npm run bench -- start` */
export async function start(quick: boolean): Promise<Outcome> {
  const runs = quick ? 3 : 5
  const idleMs = quick ? 3_000 : 10_000
  const rounds: Round[] = []
  for (let run = 0; run < runs; run += 1) {
    step(`start, run ${run + 1}`)
    rounds.push(await round(idleMs))
  }
  const raw = `${ms(median(rounds.map((each) => each.bareMs)))} (Node and one bare Fastify route)`
  const of = (key: 'first' | 'later' | 'adopted') => rounds.map((each) => each[key])
  const idle = rounds.map((each) => each.idleMb)
  return {
    facts: [`Embedded PostgreSQL in a new folder, from the sources by Node's type stripping; ${runs} runs, medians`],
    rows: [
      startRow(
        'spawn to first 200 of an authenticated request, first start (initdb, migrations, tenant)',
        of('first'),
        FIRST_MAX_MS,
        raw,
      ),
      startRow('the same, later start', of('later'), LATER_MAX_MS, raw),
      startRow(
        'the same, after kill -9 of the service (PostgreSQL runs on and is adopted)',
        of('adopted'),
        LATER_MAX_MS,
        raw,
      ),
      {
        what: `resident memory after ${idleMs / 1000} s idle, PostgreSQL apart`,
        measured: `${median(idle).toFixed(0)} MB`,
        floor: `< ${IDLE_MAX_MB} MB`,
        holds: median(idle) < IDLE_MAX_MB,
        runs: idle.map((each) => each.toFixed(0)).join(', '),
      },
    ],
  }
}

import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newType, ok } from '../../src/delivery/events/own-events.fixture.ts'
import { type Service, startService } from '../harness/harness.ts'
import { type Receiver, startReceiver } from '../harness/receiver.ts'

const PROGRAMS = join(import.meta.dirname, 'standard-webhooks')
const CACHE = join(import.meta.dirname, '../../../../.cache')
const PAID = 'acme.invoice.paid'
const SHAPES = [
  {},
  { payload: 'thin' },
  { format: 'cloudevents_structured' },
  { format: 'cloudevents_binary' },
  { format: 'cloudevents_binary', payload: 'thin' },
]

interface Sent {
  secret: string
  body: string
  headers: Record<string, string>
}

/** For each delivery, whether it is genuine, and whether it still is with one more space at its end. */
type Verdicts = [boolean, boolean][]

function verdictsOf(program: string, args: string[], sent: readonly Sent[], env = process.env): Verdicts {
  const said = execFileSync(program, args, { cwd: PROGRAMS, env, input: JSON.stringify(sent) })
  return JSON.parse(said.toString()) as Verdicts
}

const verifies = (work: () => unknown): boolean => {
  try {
    work()
    return true
  } catch {
    return false
  }
}

const python = join(CACHE, 'moto/bin/python')
const hasPython = existsSync(python) && spawnSync(python, ['-c', 'import standardwebhooks']).status === 0
/** The library comes from the folder into which `.ci/run` has downloaded it, and from nowhere else. */
const goEnv = {
  ...process.env,
  PATH: `/usr/local/go/bin:${process.env.PATH}`,
  GOMODCACHE: join(CACHE, 'go-modules'),
  GOPROXY: 'off',
}
const hasGo = spawnSync('go', ['list', '-deps', '.'], { cwd: PROGRAMS, env: goEnv }).status === 0

/** The libraries of Standard Webhooks, by language; null where one is not installed. */
const LIBRARIES: Record<string, ((sent: readonly Sent[]) => Verdicts) | null> = {
  TypeScript: (sent) =>
    sent.map(({ secret, body, headers }) => {
      const webhook = new Webhook(secret)
      return [verifies(() => webhook.verify(body, headers)), verifies(() => webhook.verify(`${body} `, headers))]
    }),
  Python: hasPython ? (sent) => verdictsOf(python, ['verify.py'], sent) : null,
  Go: hasGo ? (sent) => verdictsOf('go', ['run', '.'], sent, goEnv) : null,
}

let service: Service
const receivers: Receiver[] = []
const sent: Sent[] = []
beforeAll(async () => {
  service = await startService()
  const tenant = await service.newTenant()
  await newType(tenant, PAID)
  const webhooks = []
  for (const shape of SHAPES) {
    const receiver = await startReceiver()
    receivers.push(receiver)
    const { secret } = ok(await tenant.post('/webhooks', { url: receiver.url, events: [PAID], ...shape }), 201)
    webhooks.push({ receiver, secret: secret as string })
  }
  const { id } = ok(await tenant.post('/events', { type: PAID, data: { note: 'Zoë "50 %" \u{1f511}' } }), 201)
  for (const { receiver, secret } of webhooks) {
    const { body, headers } = await receiver.until('the event', (got) => got.headers['webhook-id'] === id)
    sent.push({ secret, body, headers: headers as Record<string, string> })
  }
})
afterAll(async () => {
  await Promise.all(receivers.map((receiver) => receiver.close()))
  await service.stop()
})

for (const [language, verify] of Object.entries(LIBRARIES))
  test.skipIf(verify === null)(
    `the ${language} library of Standard Webhooks verifies own events in every format${verify === null ? ' (skipped: .ci/run installs it)' : ''}`,
    () => {
      expect(verify?.(sent)).toEqual(SHAPES.map(() => [true, false]))
    },
  )

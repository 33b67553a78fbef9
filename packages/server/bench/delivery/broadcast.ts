// One event to thousands of endpoints: what its request costs, and when the last one has it.

import { newId } from '../../src/platform/ids.ts'
import type { Received } from '../child/receiver.ts'
import { median, ms, pause, whole } from '../figures.ts'
import { type Row, step } from '../report.ts'
import { call, forEachOf } from '../tenant.ts'
import { clear, type Stage, untilReceived } from './stage.ts'

const REQUEST_MAX_MS = 20
/** 1,200 endpoints within 20 s. */
const PER_SECOND_MIN = 60
const WARM_UP_REQUESTS = 200

export async function broadcast(stage: Stage): Promise<Row[]> {
  const subscribers = stage.quick ? 2_000 : 10_000
  await clear(stage)
  const service = await stage.bed.start()
  const target = { bed: stage.bed, service }
  const { data: app } = await call<{ data: { id: string } }>(target, 'POST', '/apps', { name: 'Broadcast' })
  const { data: quiet } = await call<{ data: { id: string } }>(target, 'POST', '/apps', { name: 'Quiet' })
  step(`subscribing ${whole(subscribers)} endpoints`)
  await forEachOf(subscribers, (at) => {
    const url = `http://127.0.0.1:${stage.ports[at % stage.ports.length]}/b/${at}`
    return call(target, 'POST', '/webhooks', { url, events: ['user.created'], appId: app.id })
  })
  await stage.bed.sql('vacuum analyze webhooks, lanes')
  const createUser = async (appId: string) => {
    const startedAt = performance.now()
    await call(target, 'POST', '/users', { email: `${newId('usr')}@example.com`, appId })
    return performance.now() - startedAt
  }
  const withoutMs: number[] = []
  for (let at = 0; at < WARM_UP_REQUESTS; at += 1) withoutMs.push(await createUser(quiet.id))
  const requestMs: number[] = []
  const allMs: number[] = []
  let missing = 0
  let repeated = 0
  for (let event = 0; event < (stage.quick ? 3 : 5); event += 1) {
    step(`event ${event + 1} to ${whole(subscribers)} endpoints`)
    await stage.receiver.call('reset')
    await pause(1_500)
    const emittedAt = Date.now()
    requestMs.push(await createUser(app.id))
    const received: Received = await untilReceived(stage, subscribers)
    allMs.push(received.lastAt - emittedAt)
    missing += subscribers - received.distinct
    repeated += received.repeated
  }
  await service.stop()
  const perSecond = subscribers / (median(allMs) / 1000)
  return [
    {
      what: `event to ${whole(subscribers)} endpoints: the emitting request`,
      measured: ms(median(requestMs)),
      floor: `< ${REQUEST_MAX_MS} ms`,
      holds: median(requestMs) < REQUEST_MAX_MS && missing === 0,
      raw: `${ms(median(withoutMs))}: the same request in an app without webhooks`,
      runs: requestMs.map(ms).join(', '),
    },
    {
      what: 'until the last of them has it',
      measured: `${ms(median(allMs))} (${whole(perSecond)}/s); ${missing} missing, ${repeated} repeated`,
      floor: `> ${PER_SECOND_MIN}/s`,
      holds: perSecond > PER_SECOND_MIN && missing === 0,
      raw: stage.raw,
      runs: allMs.map(ms).join(', '),
    },
  ]
}

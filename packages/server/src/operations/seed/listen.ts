import type { Webhook } from '../../delivery/webhooks/schema.ts'
import { type CliContext, CommandError } from '../cli/command.ts'
import type { Api } from './api.ts'
import { isMarked, PATH } from './mark.ts'
import type { SampleReceiver, Verified } from './receiver.ts'
import { PATHS } from './sample.ts'

const ID = /^(?!app_)[a-z]{2,3}_[0-9a-z]{26}$/

/** A verified delivery as a line for people. */
export function describe({ type, id, data, path }: Verified, now: Date): string {
  const about = Object.values(data).find((value) => typeof value === 'string' && ID.test(value))
  const where = path === PATHS.shop ? '' : `  at ${path}`
  return `${now.toTimeString().slice(0, 8)}  signature fits  ${type.padEnd(28)} ${id}  ${about ?? ''}${where}`.trimEnd()
}

/** The sample webhooks that are there. */
export async function sampleWebhooks(api: Api): Promise<Webhook[]> {
  return (await api.all<Webhook>('/webhooks')).filter((one) => isMarked(one) && one.metadata[PATH] !== undefined)
}

/** Leads the sample webhooks to this receiver, by new secrets, and lets them send. */
async function connect(api: Api, receiver: SampleReceiver, webhooks: readonly Webhook[]): Promise<void> {
  for (const { id, metadata } of webhooks) {
    const path = metadata[PATH] as string
    receiver.fails(path, false)
    const { secret } = await api.post<{ secret: string }>(`/webhooks/${id}/rotate`, { graceSeconds: 0 })
    receiver.knows(path, secret)
    await api.patch(`/webhooks/${id}`, { url: `${receiver.url}${path}`, status: 'active' })
  }
}

/** Lets the shop's webhook wait while nobody receives. The courier's goes on failing, as one does that is down. */
export async function pause(api: Api, webhooks: readonly Webhook[]): Promise<void> {
  for (const { id, metadata } of webhooks)
    if (metadata[PATH] === PATHS.shop) await api.patch(`/webhooks/${id}`, { status: 'paused' })
}

/** Resolves at Ctrl-C, or when the process is asked to end. npm passes on a signal that the terminal has sent already. */
function askedToStop(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => resolve())
  })
}

/** Receives what the sample webhooks get until it is asked to stop. @throws CommandError where there are none */
export async function listen(api: Api, receiver: SampleReceiver, context: Pick<CliContext, 'err'>): Promise<void> {
  const webhooks = await sampleWebhooks(api)
  if (webhooks.length === 0)
    throw new CommandError(
      'The sample webhooks were deleted. Make them again: halfkey seed --remove, then halfkey seed',
    )
  const stopped = askedToStop()
  await connect(api, receiver, webhooks)
  context.err(`Receiving at ${receiver.url}, both sample webhooks. Stop with Ctrl-C.`)
  context.err('Now, in the dashboard: open a sample webhook and send a test, or retry a dead letter.')
  await stopped
  await pause(api, webhooks)
}

import { once } from 'node:events'
import type { HalfkeyClient } from '../../../../sdk/src/index.ts'
import { type CliContext, CommandError } from '../cli/command.ts'
import { untilInterrupted } from '../cli/remote.ts'
import { isMarked, PATH } from './mark.ts'
import type { SampleReceiver, Verified } from './receiver.ts'
import { APPS } from './sample.ts'
import { all } from './service.ts'

const SHOP_PATH = APPS.shop.webhook.path
const ID = /^(?!app_)[a-z]{2,3}_[0-9a-z]{26}$/

/** A verified delivery as a line for people. */
export function describe({ type, id, data, path }: Verified, now: Date): string {
  const about = Object.values(data).find((value) => typeof value === 'string' && ID.test(value))
  const where = path === SHOP_PATH ? '' : `  at ${path}`
  return `${now.toTimeString().slice(0, 8)}  signature valid  ${type.padEnd(28)} ${id}  ${about ?? ''}${where}`.trimEnd()
}

/** The sample webhooks that are there, with their paths. */
async function sampleWebhooks(api: HalfkeyClient): Promise<{ id: string; path: string }[]> {
  const found = (await all(api.webhooks.list)).filter(isMarked)
  return found.flatMap(({ id, metadata: { [PATH]: path } }) => (path === undefined ? [] : [{ id, path }]))
}

/** Pauses the shop's webhook while nobody receives. The courier's continues to fail, like that of a receiver that is down. */
export async function pause(api: HalfkeyClient): Promise<void> {
  for (const { id, path } of await sampleWebhooks(api))
    if (path === SHOP_PATH) await api.webhooks.update(id, { status: 'paused' })
}

/** Receives the events of the sample webhooks until Ctrl-C or SIGTERM. @throws CommandError where there are none */
export async function listen(
  api: HalfkeyClient,
  receiver: SampleReceiver,
  context: Pick<CliContext, 'err'>,
): Promise<void> {
  const webhooks = await sampleWebhooks(api)
  if (webhooks.length === 0)
    throw new CommandError(
      'The sample webhooks were deleted. Create them again: halfkey seed --remove, then halfkey seed',
    )
  await untilInterrupted(async (signal) => {
    const stopped = once(signal, 'abort')
    for (const { id, path } of webhooks) {
      receiver.fails(path, false)
      const { secret } = await api.webhooks.rotate(id, { graceSeconds: 0 })
      if (secret !== null) receiver.knows(path, secret)
      await api.webhooks.update(id, { url: `${receiver.url}${path}`, status: 'active' })
    }
    context.err(`Receiving the events of both sample webhooks at ${receiver.url}. Press Ctrl-C to stop.`)
    context.err('Now, in the dashboard: open a sample webhook and send a test, or retry a dead letter.')
    await stopped
    await pause(api)
  })
}

import type { Deps } from '../../../platform/deps.ts'
import { createOptionsOf, type Owner, type WebhookOptions } from '../options/options.ts'
import { createOptionedPost } from '../options/post.ts'
import type { Destination } from './destination.ts'
import { createBucket } from './s3.ts'
import { createQueue } from './sqs.ts'

/** Finds the destination of a webhook: its URL, unless its options name a queue or a bucket. */
export function createDestinations(deps: Pick<Deps, 'keys' | 'egress' | 'config'>) {
  const optionsOf = createOptionsOf(deps)
  const postWithOptions = createOptionedPost(deps)
  const plain: Destination = { send: (outgoing) => deps.egress.post(outgoing) }
  const made = new WeakMap<WebhookOptions, Destination>()

  function make(options: WebhookOptions): Destination {
    const { destination } = options
    if (destination === null) return { send: (outgoing) => postWithOptions(outgoing, options, outgoing.nowMs) }
    return destination.type === 'sqs' ? createQueue(deps, destination) : createBucket(deps, destination)
  }

  return async function destinationOf(owner: Owner, optionsSealed: Buffer | null): Promise<Destination> {
    if (optionsSealed === null) return plain
    const options = await optionsOf(owner, optionsSealed)
    // The same options are the same object, so that all deliveries to a bucket meet in one place.
    const destination = made.get(options) ?? make(options)
    made.set(options, destination)
    return destination
  }
}

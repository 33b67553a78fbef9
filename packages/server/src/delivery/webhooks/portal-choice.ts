import type { Deps } from '../../platform/deps.ts'
import { invalid } from '../../platform/http/errors.ts'
import type { Caller } from '../../platform/http/route.ts'
import { activeTypes } from '../event-types/service.ts'
import { findOwnWebhook } from './service.ts'

async function namesOf(deps: Deps, caller: Caller): Promise<string[]> {
  return (await activeTypes(deps.db, caller)).map(({ name }) => name)
}

/**
 * Checks that a subscriber chooses active types of the app, or `*`: what their portal offers. With `id`, what that webhook
 * has already may stay. @throws validation_failed, not_found
 */
export async function checkChoice(
  deps: Deps,
  caller: Caller,
  events: readonly string[] | undefined,
  id?: string,
): Promise<void> {
  if (events === undefined) return
  const kept = id === undefined ? [] : (await findOwnWebhook(deps.db, caller, id)).events
  const offered = new Set(['*', ...kept, ...(await namesOf(deps, caller))])
  const wrong = events.findIndex((entry) => !offered.has(entry))
  if (wrong !== -1)
    throw invalid(`events.${wrong}`, 'Must be one of the event types that are offered, or *.', 'not_allowed')
}

/** The same for the type of a test. @throws validation_failed */
export async function checkTestType(deps: Deps, caller: Caller, eventType = 'webhook.test'): Promise<void> {
  if (eventType !== 'webhook.test' && !(await namesOf(deps, caller)).includes(eventType))
    throw invalid('eventType', 'Must be one of the event types that are offered, or webhook.test.', 'not_allowed')
}

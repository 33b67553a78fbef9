import { isHalfkeyError } from '@halfkey/sdk'
import { api } from '../api.ts'
import { pathOfRecord } from '../components/records/record-link.tsx'
import { messageOf } from '../error-words.ts'
import { findAuditEntry } from './find-audit-entry.ts'

const WEBHOOKS_MAX = 20

/** What a search for an id found: a page to open, or what there is to say. */
export interface FoundId {
  path: string | null
  message: string | null
}

const ID = /^[a-z]{2,4}_[0-9a-z]{26}$/

/** Whether a text has the form of a record's id. */
export const isRecordId = (text: string): boolean => ID.test(text)

const nothing = (id: string, more = ''): FoundId => ({ path: null, message: `Nothing has the id ${id}.${more}` })

type Look = (id: string, signal: AbortSignal) => Promise<FoundId>

/** Opens the record's page if the API has the record. @throws not_found */
const opens =
  (get: (id: string, options: { signal: AbortSignal }) => Promise<unknown>): Look =>
  async (id, signal) => {
    await get(id, { signal })
    return { path: pathOfRecord(id), message: null }
  }

/** A delivery is known by its webhook: each of the newest webhooks is asked. */
async function findDelivery(id: string, signal: AbortSignal): Promise<FoundId> {
  const { data, total } = await api.webhooks.list({ pageSize: WEBHOOKS_MAX }, { signal })
  for (const webhook of data) {
    try {
      await api.webhooks.deliveries.get(webhook.id, id, { signal })
      return { path: `/webhooks/${webhook.id}/deliveries/${id}`, message: null }
    } catch (error) {
      if (!isHalfkeyError(error, 'not_found')) throw error
    }
  }
  if (total <= data.length) return nothing(id)
  return {
    path: null,
    message: `The ${data.length} newest of ${total} webhooks have no delivery ${id}. Search for the id of its event instead: the page of an event lists its deliveries.`,
  }
}

async function findJob(id: string, signal: AbortSignal): Promise<FoundId> {
  const { type, status, progress, total } = await api.jobs.get(id, { signal })
  return { path: null, message: `The job ${type} is ${status}: ${progress} of ${total} done.` }
}

async function findEntry(id: string, signal: AbortSignal): Promise<FoundId> {
  const entry = await findAuditEntry(id, signal)
  return entry === null
    ? nothing(id, ' If you know its actor or target, filter the audit log by it.')
    : { path: `/audit-log?entry=${id}`, message: null }
}

const LOOKS: Record<string, Look> = {
  usr: opens(api.users.get),
  gst: opens(api.guests.get),
  wal: opens(api.wallets.get),
  tx: opens(api.transactions.get),
  dse: opens(api.delegatedSessions.get),
  wh: opens(api.webhooks.get),
  sub: opens(api.subscribers.get),
  evt: opens(api.events.get),
  ety: opens(api.eventTypes.get),
  key: opens(api.apiKeys.get),
  dom: opens(api.customDomains.get),
  app: opens(api.apps.get),
  dlv: findDelivery,
  job: findJob,
  aud: findEntry,
}

/** Looks for the record with an id. Never rejects, except if it is aborted: a failure is in the message. */
export async function findId(id: string, signal: AbortSignal): Promise<FoundId> {
  try {
    return (await LOOKS[id.slice(0, id.indexOf('_'))]?.(id, signal)) ?? nothing(id)
  } catch (error) {
    if (signal.aborted) throw error
    if (isHalfkeyError(error, 'not_found')) return nothing(id)
    return { path: null, message: `The id ${id} could not be looked up: ${messageOf(error)}` }
  }
}

import { isHalfkeyError } from '@halfkey/sdk'
import { useEffect, useSyncExternalStore } from 'react'
import { api, messageOf } from '../../../api.ts'
import { queryClient } from '../../../query-client.ts'

const CONCURRENCY = 4

/** Many dead letters that are being retried, one call each. Kept in the tab, so that a reload continues it. */
export interface RetryRun {
  total: number
  /** Not retried yet. */
  waiting: string[]
  /** Retried, without an answer so far. */
  inFlight: string[]
  /** In flight before a reload, which lost the answer: their status is checked before they are retried. */
  unsure: string[]
  /** How many were refused, by the server's message. */
  refused: Record<string, number>
  cancelled: number
}

interface Store {
  key: string
  webhookId: string
  run: RetryRun | null
  /** Workers of an earlier generation stop. */
  generation: number
  listeners: Set<() => void>
}

const stores = new Map<string, Store>()

function isRun(value: unknown): value is RetryRun {
  const run = value as RetryRun
  return (
    typeof value === 'object' &&
    value !== null &&
    [run.waiting, run.inFlight, run.unsure].every((ids) => Array.isArray(ids)) &&
    typeof run.total === 'number' &&
    typeof run.cancelled === 'number' &&
    typeof run.refused === 'object'
  )
}

function readRun(key: string): RetryRun | null {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(key) ?? 'null')
    return isRun(found) ? found : null
  } catch {
    return null
  }
}

function storeOf(tenantId: string, webhookId: string): Store {
  const key = `halfkey.retry.${tenantId}.${webhookId}`
  const store = stores.get(key) ?? { key, webhookId, run: readRun(key), generation: 0, listeners: new Set() }
  stores.set(key, store)
  return store
}

function put(store: Store, run: RetryRun | null): void {
  store.run = run
  if (run === null) sessionStorage.removeItem(store.key)
  else sessionStorage.setItem(store.key, JSON.stringify(run))
  for (const listener of store.listeners) listener()
}

/** How many of a run are finished, accepted or refused. */
export const finishedOf = (run: RetryRun): number =>
  run.total - run.waiting.length - run.inFlight.length - run.unsure.length - run.cancelled

/** Whether the run is not finished. */
export const isRunning = (run: RetryRun): boolean => run.waiting.length + run.inFlight.length + run.unsure.length > 0

/** Takes the next delivery. `sure`: it was certainly not retried before. */
function take(store: Store): { id: string; sure: boolean } | null {
  const run = store.run
  const id = run?.unsure[0] ?? run?.waiting[0]
  if (run === null || run === undefined || id === undefined) return null
  const sure = run.unsure.length === 0
  put(store, {
    ...run,
    unsure: sure ? run.unsure : run.unsure.slice(1),
    waiting: sure ? run.waiting.slice(1) : run.waiting,
    inFlight: [...run.inFlight, id],
  })
  return { id, sure }
}

function finish(store: Store, id: string, refusal: string | null): void {
  const run = store.run
  if (run === null) return
  const refused =
    refusal === null
      ? run.refused
      : { ...run.refused, [refusal]: (Object.hasOwn(run.refused, refusal) ? (run.refused[refusal] ?? 0) : 0) + 1 }
  put(store, { ...run, inFlight: run.inFlight.filter((each) => each !== id), refused })
}

/** Retries one; if it may have been retried before, only if it is still a dead letter. */
async function retry(webhookId: string, id: string, sure: boolean): Promise<void> {
  if (!sure && (await api.webhooks.deliveries.get(webhookId, id)).status !== 'dead_letter') return
  await api.webhooks.deliveries.retry(webhookId, id)
}

async function work(store: Store, generation: number): Promise<void> {
  while (store.generation === generation) {
    const next = take(store)
    if (next === null) break
    try {
      await retry(store.webhookId, next.id, next.sure)
      finish(store, next.id, null)
    } catch (error) {
      // The session has ended. The run continues after the next sign-in.
      if (isHalfkeyError(error) && error.status === 401) return
      finish(store, next.id, messageOf(error))
    }
  }
}

async function resume(store: Store): Promise<void> {
  store.generation += 1
  const { generation, run } = store
  if (run === null || !isRunning(run)) return
  put(store, { ...run, inFlight: [], unsure: [...run.inFlight, ...run.unsure] })
  await Promise.all(Array.from({ length: CONCURRENCY }, () => work(store, generation)))
  await queryClient.invalidateQueries({ queryKey: ['webhooks', store.webhookId] })
}

/**
 * A webhook's retry run. It continues while a page with this hook is open, and after a reload. `start` adds to a
 * running one.
 */
export function useRetryRun(tenantId: string, webhookId: string) {
  const store = storeOf(tenantId, webhookId)
  const run = useSyncExternalStore(
    (listener) => {
      store.listeners.add(listener)
      return () => store.listeners.delete(listener)
    },
    () => store.run,
  )
  useEffect(() => {
    void resume(store)
    return () => {
      store.generation += 1
    }
  }, [store])
  return {
    run,
    start(ids: readonly string[]) {
      const before = store.run !== null && isRunning(store.run) ? store.run : null
      const known = new Set(before === null ? [] : [...before.waiting, ...before.inFlight, ...before.unsure])
      const fresh = ids.filter((id) => !known.has(id))
      const empty: RetryRun = { total: 0, waiting: [], inFlight: [], unsure: [], refused: {}, cancelled: 0 }
      const { total, waiting, ...rest } = before ?? empty
      put(store, { ...rest, total: total + fresh.length, waiting: [...waiting, ...fresh] })
      if (before === null) void resume(store)
    },
    /** Those that were inFlight for are still awaited. */
    cancel() {
      if (store.run === null) return
      const { waiting, unsure, cancelled } = store.run
      put(store, { ...store.run, waiting: [], unsure: [], cancelled: cancelled + waiting.length + unsure.length })
    },
    dismiss: () => put(store, null),
  }
}

/** A webhook's run, and what can be done with it. */
export type RetryRunner = ReturnType<typeof useRetryRun>

import type { Webhook } from '../../delivery/webhooks/schema.ts'
import type { Guest } from '../../identity/guests/schema.ts'
import type { User } from '../../identity/users/schema.ts'
import type { Id } from '../../platform/ids.ts'
import type { ApiKey } from '../../tenancy/api-keys/schema.ts'
import type { App } from '../../tenancy/apps/schema.ts'
import type { CustomDomain } from '../../tenancy/custom-domains/schema.ts'
import { CommandError } from '../cli/command.ts'
import type { Progress } from '../cli/progress.ts'
import { type Api, CallError } from './api.ts'
import { removeHistory } from './history.ts'
import { HISTORY, isMarked, MARK, STATE } from './mark.ts'
import { APPS } from './sample.ts'
import type { SeededService } from './service.ts'
import { forgetKeys } from './store.ts'

/** What a removal took away, by kind. */
export interface Removed {
  apps: number
  users: number
  guests: number
  webhooks: number
  domains: number
  keys: number
  /** Days of counters that were added. */
  historyDays: number
  /** Apps that stay, and why. */
  kept: { id: string; name: string; why: string }[]
}

const CONCURRENCY = 6
const DOMAINS = Object.values(APPS).map(({ domain }) => domain)

/** @returns false where it was gone already: a user of the dashboard may have been faster */
async function remove(api: Api, path: string): Promise<boolean> {
  return api.delete(path).then(
    () => true,
    (error: unknown) => {
      if (error instanceof CallError && error.status === 404) return false
      throw error
    },
  )
}

/** A record in a sample app: where it is deleted, and whether the seed made it. */
interface Content {
  path: string
  ours: boolean
}

/** Deletes those that the seed made, a few at a time. @returns how many were there */
async function removeAll(api: Api, progress: Progress, stage: string, contents: readonly Content[]): Promise<number> {
  const paths = contents.filter(({ ours }) => ours).map(({ path }) => path)
  if (paths.length === 0) return 0
  progress.begin(stage, paths.length)
  let removed = 0
  const queue = paths.values()
  const work = async () => {
    for (const path of queue) {
      if (await remove(api, path)) removed += 1
      progress.add(1)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, work))
  return removed
}

/** Everything in an app. */
async function contentsOf(api: Api, { id }: App, allKeys: readonly ApiKey[]) {
  const list = <T>(path: string) => api.all<T>(`${path}?app_id=${id}`)
  const at = (path: string) => (one: { id: string; metadata: Record<string, string> }) => ({
    path: `${path}/${one.id}`,
    ours: isMarked(one),
  })
  return {
    webhooks: (await list<Webhook>('/webhooks')).map(at('/webhooks')),
    keys: allKeys.filter(({ appId, status }) => appId === id && status === 'active').map(at('/api-keys')),
    domains: (await list<CustomDomain>('/custom-domains')).map(({ domain }) => ({
      path: `/custom-domains?domain=${domain}`,
      ours: DOMAINS.includes(domain),
    })),
    users: (await list<User>('/users')).map(at('/users')),
    guests: (await list<Guest>('/guests')).filter(({ status }) => status !== 'converted').map(at('/guests')),
  }
}

async function removeApp(api: Api, app: App, keys: readonly ApiKey[], progress: Progress, removed: Removed) {
  const contents = await contentsOf(api, app, keys)
  // Without the mark a later seed makes its own.
  const keep = async (why: string) => {
    await api.patch(`/apps/${app.id}`, { metadata: { [MARK]: null, [STATE]: null, [HISTORY]: null } })
    removed.kept.push({ id: app.id, name: app.name, why })
  }
  const clear = (kind: keyof typeof contents) => removeAll(api, progress, `${app.name}: ${kind}`, contents[kind])
  // Webhooks first, so that they receive no events about the rest.
  for (const kind of ['webhooks', 'keys', 'domains', 'users'] as const) removed[kind] += await clear(kind)
  const others = Object.values(contents)
    .flat()
    .filter(({ ours }) => !ours).length
  if (others > 0) {
    // These records need the app. Its sample guests are ended, and stay.
    await clear('guests')
    return keep(`it holds ${others} records that are not of the sample`)
  }
  // Only sample guests are left, which are deleted with the app alone.
  try {
    if (!(await remove(api, `/apps/${app.id}?force=true`))) return
  } catch (error) {
    if (!(error instanceof CallError) || error.code !== 'default_app') throw error
    return keep("it is the tenant's default app")
  }
  removed.guests += contents.guests.length
  removed.apps += 1
}

/** The apps that may have invented counters: of an app that was deleted otherwise, its sample keys are still listed. */
function appsWithHistory(apps: readonly App[], keys: readonly ApiKey[]): { id: string; createdAt: string }[] {
  const created = new Map<string, string>()
  // Newest first: the earliest time stays, that of the app itself where it is still there.
  for (const { appId, createdAt } of keys.filter(isMarked)) if (appId !== null) created.set(appId, createdAt)
  for (const { id, createdAt } of apps) created.set(id, createdAt)
  return [...created].map(([id, createdAt]) => ({ id, createdAt }))
}

/** Removes what a seed made, also one that was interrupted, and nothing else. @throws CommandError */
export async function removeSample(
  { api, deps, tenantId, keyId }: SeededService,
  progress: Progress,
): Promise<Removed> {
  const apps = (await api.all<App>('/apps')).filter(isMarked)
  const keys = await api.all<ApiKey>('/api-keys')
  if (deps === null && apps.some(({ metadata }) => HISTORY in metadata))
    throw new CommandError(
      'Of these sample data the analytics of past days were written into the database, and only there can they be taken away: run this where DATABASE_URL or HALFKEY_DATA_DIR lead to the database of the service. Nothing was removed.',
    )
  const removed: Removed = { apps: 0, users: 0, guests: 0, webhooks: 0, domains: 0, keys: 0, historyDays: 0, kept: [] }
  try {
    // First, while the apps still show that there is a history: a removal that is interrupted must find it again.
    if (deps !== null)
      for (const app of appsWithHistory(apps, keys)) removed.historyDays += await removeHistory(deps, tenantId, app)
    for (const app of apps) await removeApp(api, app, keys, progress, removed)
    // Seeds that were killed could not revoke the keys that they had made for themselves.
    const strays = keys.filter((key) => isMarked(key) && key.appId === null && key.status === 'active')
    for (const { id } of strays) if (id !== keyId) await remove(api, `/api-keys/${id}`)
    if (deps !== null) await forgetKeys(deps.db, tenantId as Id<'ten'>)
  } finally {
    progress.end()
  }
  return removed
}

import pLimit from 'p-limit'
import { type ApiKey, type App, type HalfkeyClient, isHalfkeyError } from '../../../../sdk/src/index.ts'
import type { Id } from '../../platform/ids.ts'
import { CommandError } from '../cli/command.ts'
import type { Progress } from '../cli/progress.ts'
import { removeHistory } from './history.ts'
import { HISTORY, isMarked, MARK, STATE } from './mark.ts'
import { APPS } from './sample.ts'
import { all, type SeededService } from './service.ts'
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
function isRemoved(deletion: Promise<unknown>): Promise<boolean> {
  return deletion.then(
    () => true,
    (error: unknown) => {
      if (isHalfkeyError(error, 'not_found')) return false
      throw error
    },
  )
}

/** A record in a sample app: how it is deleted, and whether the seed made it. */
interface Content {
  remove(): Promise<unknown>
  ours: boolean
}

/** Deletes those that the seed made, a few at a time. @returns how many were there */
async function removeAll(progress: Progress, stage: string, contents: readonly Content[]): Promise<number> {
  const sample = contents.filter(({ ours }) => ours)
  if (sample.length === 0) return 0
  progress.begin(stage, sample.length)
  const atATime = pLimit(CONCURRENCY)
  const removed = await atATime.map(sample, async ({ remove }) => {
    const was = await isRemoved(remove())
    progress.add(1)
    return was
  })
  return removed.filter(Boolean).length
}

/** Everything in an app. */
async function contentsOf(api: HalfkeyClient, { id: appId }: App, allKeys: readonly ApiKey[]) {
  const { webhooks, apiKeys, customDomains, users, guests } = api
  const by = (remove: (id: string) => Promise<unknown>) => (one: { id: string; metadata: Record<string, string> }) => ({
    remove: () => remove(one.id),
    ours: isMarked(one),
  })
  const keys = allKeys.filter((key) => key.appId === appId && key.status === 'active')
  const domains = await all((page) => customDomains.list({ ...page, appId }))
  const guestsLeft = (await all((page) => guests.list({ ...page, appId }))).filter(
    ({ status }) => status !== 'converted',
  )
  return {
    webhooks: (await all((page) => webhooks.list({ ...page, appId }))).map(by(webhooks.delete)),
    keys: keys.map(by(apiKeys.revoke)),
    domains: domains.map(({ domain }) => ({
      remove: () => customDomains.remove(domain),
      ours: DOMAINS.includes(domain),
    })),
    users: (await all((page) => users.list({ ...page, appId }))).map(by(users.delete)),
    guests: guestsLeft.map(by(guests.expire)),
  }
}

async function removeApp(api: HalfkeyClient, app: App, keys: readonly ApiKey[], progress: Progress, removed: Removed) {
  const contents = await contentsOf(api, app, keys)
  // Without the mark a later seed makes its own.
  const keep = async (why: string) => {
    await api.apps.update(app.id, { metadata: { [MARK]: null, [STATE]: null, [HISTORY]: null } })
    removed.kept.push({ id: app.id, name: app.name, why })
  }
  const clear = (kind: keyof typeof contents) => removeAll(progress, `${app.name}: ${kind}`, contents[kind])
  // Webhooks first, so that they receive no events about the rest.
  for (const kind of ['webhooks', 'keys', 'domains', 'users'] as const) removed[kind] += await clear(kind)
  const others = Object.values(contents)
    .flat()
    .filter(({ ours }) => !ours).length
  if (others > 0) {
    // These records need the app. Its sample guests are ended, and stay.
    await clear('guests')
    return keep(`it contains ${others} records that are not sample data`)
  }
  // Only sample guests are left, which are deleted with the app alone.
  try {
    if (!(await isRemoved(api.apps.delete(app.id, { force: true })))) return
  } catch (error) {
    if (!isHalfkeyError(error, 'default_app')) throw error
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
  const apps = (await all(api.apps.list)).filter(isMarked)
  const keys = await all(api.apiKeys.list)
  if (deps === null && apps.some(({ metadata }) => HISTORY in metadata))
    throw new CommandError(
      "The sample analytics were written directly into the database and can only be deleted there. Run this where DATABASE_URL or HALFKEY_DATA_DIR lead to the service's database. Nothing was deleted.",
    )
  const removed: Removed = { apps: 0, users: 0, guests: 0, webhooks: 0, domains: 0, keys: 0, historyDays: 0, kept: [] }
  // First, while the apps still show that there is a history: a removal that is interrupted must find it again.
  if (deps !== null)
    for (const app of appsWithHistory(apps, keys)) removed.historyDays += await removeHistory(deps, tenantId, app)
  for (const app of apps) await removeApp(api, app, keys, progress, removed)
  // Seeds that were killed could not revoke the keys that they had made for themselves.
  const strays = keys.filter((key) => isMarked(key) && key.appId === null && key.status === 'active')
  for (const { id } of strays) if (id !== keyId) await isRemoved(api.apiKeys.revoke(id))
  if (deps !== null) await forgetKeys(deps.db, tenantId as Id<'ten'>)
  return removed
}

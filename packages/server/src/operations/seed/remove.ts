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
import { DOMAINS } from './sample.ts'
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

const AT_ONCE = 6

/** Somebody else, the API's user in the dashboard say, may have been faster. */
async function gone(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => true,
    (error: unknown) => {
      if (error instanceof CallError && error.status === 404) return false
      throw error
    },
  )
}

/** Deletes them a few at a time. @returns how many were there */
async function removeAll(progress: Progress, what: string, deletions: (() => Promise<unknown>)[]): Promise<number> {
  if (deletions.length === 0) return 0
  progress.begin(what, deletions.length)
  const left = [...deletions]
  let removed = 0
  const work = async () => {
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      if (await gone(next())) removed += 1
      progress.add(1)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return removed
}

/** Everything in an app, by whether the seed made it. */
async function contentsOf(api: Api, { id }: Pick<App, 'id'>, allKeys: readonly ApiKey[]) {
  const of = `app_id=${id}`
  const users = await api.all<User>(`/users?${of}`)
  const guests = (await api.all<Guest>(`/guests?${of}`)).filter(({ status }) => status !== 'converted')
  const webhooks = await api.all<Webhook>(`/webhooks?${of}`)
  const domains = await api.all<CustomDomain>(`/custom-domains?${of}`)
  const keys = allKeys.filter(({ appId, status }) => appId === id && status === 'active')
  const isOurs = ({ domain }: CustomDomain) => Object.values<string>(DOMAINS).includes(domain)
  const all = [...users, ...guests, ...webhooks, ...keys]
  const others = all.filter((one) => !isMarked(one)).length + domains.filter((one) => !isOurs(one)).length
  return {
    users: users.filter(isMarked),
    guests: guests.filter(isMarked),
    webhooks: webhooks.filter(isMarked),
    keys: keys.filter(isMarked),
    domains: domains.filter(isOurs),
    others,
  }
}

async function removeApp(api: Api, app: App, keys: readonly ApiKey[], progress: Progress, removed: Removed) {
  const found = await contentsOf(api, app, keys)
  const remove = (what: string, paths: string[]) =>
    removeAll(
      progress,
      `${app.name}: ${what}`,
      paths.map((path) => () => api.delete(path)),
    )
  // It is no longer the seed's, which may begin anew.
  const keep = async (why: string) => {
    await api.patch(`/apps/${app.id}`, { metadata: { [MARK]: null, [STATE]: null, [HISTORY]: null } })
    removed.kept.push({ id: app.id, name: app.name, why })
  }
  // First, so that nobody is told of what follows.
  removed.webhooks += await remove(
    'webhooks',
    found.webhooks.map(({ id }) => `/webhooks/${id}`),
  )
  removed.keys += await remove(
    'keys',
    found.keys.map(({ id }) => `/api-keys/${id}`),
  )
  const domains = found.domains.map(({ domain }) => `/custom-domains?domain=${domain}`)
  removed.domains += await remove('domains', domains)
  removed.users += await remove(
    'users',
    found.users.map(({ id }) => `/users/${id}`),
  )
  if (found.others > 0) {
    // What is not of the sample needs the app: its guests are ended and stay.
    await remove(
      'guests',
      found.guests.map(({ id }) => `/guests/${id}`),
    )
    await keep(`it holds ${found.others} records that are not of the sample`)
    return
  }
  // By now nobody is in it but sample guests, whom nothing else deletes.
  const deleted = gone(api.delete(`/apps/${app.id}?force=true`)).catch(async (error: unknown) => {
    if (!(error instanceof CallError) || error.code !== 'default_app') throw error
    await keep("it is the tenant's default app")
    return false
  })
  if (!(await deleted)) return
  removed.guests += found.guests.length
  removed.apps += 1
}

/** The apps that have, or had, something of the seed's: of one that was deleted otherwise its keys still tell. */
function appsOf(apps: readonly App[], keys: readonly ApiKey[]): { id: string; createdAt: string }[] {
  const known = new Map<string, string>()
  // Newest first: the earliest time stays, that of the app itself where it is still there.
  for (const { appId, createdAt } of keys.filter(isMarked)) if (appId !== null) known.set(appId, createdAt)
  for (const { id, createdAt } of apps) known.set(id, createdAt)
  return [...known].map(([id, createdAt]) => ({ id, createdAt }))
}

/** Revokes the keys that seeds made for themselves and were killed before they revoked them. */
async function revokeStrays(api: Api, keys: readonly ApiKey[], own: string | null): Promise<void> {
  const strays = keys.filter((key) => isMarked(key) && key.appId === null && key.status === 'active' && key.id !== own)
  for (const { id } of strays) await gone(api.delete(`/api-keys/${id}`))
}

/** Takes away what a seed made, however far it had got, and nothing else. @throws CommandError */
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
    // While the apps still say that there is something: an interrupted removal is to find it again.
    if (deps !== null)
      for (const app of appsOf(apps, keys)) removed.historyDays += await removeHistory(deps, tenantId, app)
    for (const app of apps) await removeApp(api, app, keys, progress, removed)
    await revokeStrays(api, keys, keyId)
    if (deps !== null) await forgetKeys(deps.db, tenantId as Id<'ten'>)
  } finally {
    progress.end()
  }
  return removed
}

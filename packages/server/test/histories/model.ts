import { ALERT_TYPES } from '../../src/delivery/engine/health/alerts.ts'
import type { StageTenant } from './stage.ts'

/** A webhook, as far as it decides what it gets. */
export interface Hook {
  readonly id: string
  /** The path of its URL. */
  readonly path: string
  readonly tenant: StageTenant
  readonly appId: string | null
  readonly subscriberId: string | null
  readonly includeSubscribers: boolean
  events: readonly string[]
  /** The only colour of events that pass its filter; null without a filter. */
  colour: string | null
  status: 'active' | 'paused'
  deleted: boolean
}

/** An event that was acknowledged, or that the engine published itself. */
export interface KnownEvent {
  readonly id: string
  readonly tenantId: string
  readonly appId: string | null
  readonly subscriberId: string | null
  readonly type: string
  readonly colour: string | null
  readonly key: string | null
  /** The webhook that it is about, if it is an alert. */
  readonly about: string | null
  /** Paths of the webhooks that get it, as they were at its fan-out. Null before that. */
  receivers: { must: ReadonlySet<string>; may: ReadonlySet<string> } | null
}

/** What a webhook was at a time; null for one that was not there yet. */
export type Snapshot = ReadonlyMap<string, Hook>

const covers = (events: readonly string[], type: string): boolean =>
  events.some((name) => name === '*' || name === type || name === `${type.split('.')[0]}.*`)

const isAlertAbout = (event: KnownEvent, hook: Hook): boolean =>
  event.about === hook.id && (ALERT_TYPES as readonly string[]).includes(event.type)

/** Whether a webhook gets an event, by the rules that the documentation states. */
function gets(hook: Hook, event: KnownEvent): boolean {
  if (hook.deleted || hook.tenant.call.caller.tenantId !== event.tenantId) return false
  if (hook.appId !== null && hook.appId !== event.appId) return false
  if (!covers(hook.events, event.type) || isAlertAbout(event, hook)) return false
  if (hook.subscriberId !== null) {
    if (hook.subscriberId !== event.subscriberId) return false
  } else if (event.subscriberId !== null && !hook.includeSubscribers) return false
  return hook.colour === null || hook.colour === event.colour
}

/** What is to be true, kept beside the engine and independent of its tables. */
export class Model {
  readonly hooks = new Map<string, Hook>()
  readonly events = new Map<string, KnownEvent>()
  /** Deliveries that somebody asked to be sent again, as `path eventId`: these keep no order. */
  readonly exempt = new Set<string>()
  /** Webhooks whose dead letters somebody asked for in this step. */
  readonly recovered = new Set<Hook>()
  /** The webhooks of the step, before each of its changes. */
  #seen: Snapshot[] = []

  #snapshot(): Snapshot {
    return new Map([...this.hooks].map(([path, hook]) => [path, { ...hook }]))
  }

  beginStep(): void {
    this.#seen = [this.#snapshot()]
    this.recovered.clear()
  }

  /** Remembers the webhooks after a change, which a fan-out of the same step may or may not have seen. */
  changed(): void {
    this.#seen.push(this.#snapshot())
  }

  /** An event was fanned out in this step. */
  fannedOut(event: KnownEvent): void {
    const at = (seen: Snapshot) => [...seen.values()].filter((hook) => gets(hook, event)).map(({ path }) => path)
    const sets = this.#seen.map((seen) => new Set(at(seen)))
    const may = new Set(sets.flatMap((set) => [...set]))
    event.receivers = { may, must: new Set([...may].filter((path) => sets.every((set) => set.has(path)))) }
  }

  live(): Hook[] {
    return [...this.hooks.values()].filter(({ deleted }) => !deleted)
  }
}

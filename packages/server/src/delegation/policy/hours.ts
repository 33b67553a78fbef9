import { LRUCache } from 'lru-cache'
import type { Hours } from './policy-schema.ts'

type Day = NonNullable<Hours['days']>[number]

/** The days in their order. */
export const DAYS: readonly Day[] = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']

const DAY_MINUTES = 24 * 60
/** More than there are zones: names in other spellings must not fill the memory. */
const CLOCKS_MAX = 600

/** The time on the clocks of a zone. */
interface Local {
  day: Day
  /** Since midnight, as the clocks show it. */
  minute: number
}

/** Compiled hours. */
export interface CompiledHours {
  days: ReadonlySet<Day>
  /** In minutes since midnight. */
  from: number
  to: number
  zone: string
}

const clocks = new LRUCache<string, Intl.DateTimeFormat>({ max: CLOCKS_MAX })

/** @throws RangeError for a zone that this process does not know */
function clockOf(zone: string): Intl.DateTimeFormat {
  const known = clocks.get(zone)
  if (known !== undefined) return known
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  })
  clocks.set(zone, clock)
  return clock
}

/** Whether this process knows a time zone. */
export function isZone(zone: string): boolean {
  try {
    clockOf(zone)
    return true
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

const minutesOf = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

/** Compiles hours. They have passed their schema. */
export const compileHours = ({ days, from, to, timeZone }: Hours): CompiledHours => ({
  days: new Set(days ?? DAYS),
  from: minutesOf(from),
  to: minutesOf(to),
  zone: timeZone,
})

/** What the clocks of a zone show. @throws RangeError */
function localAt(zone: string, at: Date): Local {
  const parts = new Map(
    clockOf(zone)
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  )
  const day = parts.get('weekday')?.toLowerCase() as Day
  return { day, minute: Number(parts.get('hour')) * 60 + Number(parts.get('minute')) }
}

const dayBefore = (day: Day): Day => DAYS[(DAYS.indexOf(day) + 6) % 7] as Day

/**
 * Whether a time is within hours, by the clocks of their zone. An hour that clocks skip never comes; one that they repeat counts
 * both times. A zone that this process does not know has no hours.
 */
export function isWithin({ days, from, to, zone }: CompiledHours, at: Date): boolean {
  if (!isZone(zone)) return false
  const { day, minute } = localAt(zone, at)
  if (from < to) return days.has(day) && minute >= from && minute < to
  // They end on the next day.
  return (days.has(day) && minute >= from) || (days.has(dayBefore(day)) && minute < to)
}

const clockText = (minutes: number) =>
  `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`

/** `mon, tue, wed from 09:00 to 18:00 (Europe/Zurich)`. */
export function hoursWords({ days, from, to, zone }: CompiledHours): string {
  const which = days.size === DAYS.length ? 'every day' : DAYS.filter((day) => days.has(day)).join(', ')
  const end = from < to || to === 0 ? '' : ' of the next day'
  return `${which} from ${clockText(from)} to ${clockText(to === 0 ? DAY_MINUTES : to)}${end} (${zone})`
}

/** What the clocks show: `sat 10:12`. Empty for a zone that this process does not know. */
export function clockWords({ zone }: CompiledHours, at: Date): string {
  if (!isZone(zone)) return ''
  const { day, minute } = localAt(zone, at)
  return `${day} ${clockText(minute)}`
}

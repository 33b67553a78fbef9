/** A place in a chain of hashes. */
export interface Place {
  seq: number
  /** Hex. */
  hash: string
}

/** How far an installation has come: everything here only grows within one epoch. */
export interface Marks {
  /** Raised by `halfkey restore accept`, which takes an earlier state for the present one. */
  epoch: number
  counters: Readonly<Record<string, number>>
  /** The ends of the chains by name, e.g. `audit ten_…`. */
  chains: Readonly<Record<string, Place>>
  /** The newest versions of single records, by their places: see `RecordKeeper.remember`. */
  versions: Readonly<Record<string, number>>
}

/** Something in which a database is behind its floor. */
export interface Setback {
  /** The name of a counter or chain, or `epoch`. */
  what: string
  floor: number
  /** Null if the chain is missing. */
  database: number | null
  /** A chain that reaches the floor's place and has another entry there. */
  isForked: boolean
}

const ownPlace = (chains: Marks['chains'], name: string): Place | undefined =>
  Object.hasOwn(chains, name) ? chains[name] : undefined

const ownCount = (counters: Marks['counters'], name: string): number =>
  Object.hasOwn(counters, name) ? (counters[name] as number) : 0

function highestCounts(one: Marks['counters'], other: Marks['counters']): Record<string, number> {
  const counts = { ...one }
  for (const [name, n] of Object.entries(other)) counts[name] = Math.max(ownCount(counts, name), n)
  return counts
}

const coversCounts = (one: Marks['counters'], other: Marks['counters']): boolean =>
  Object.entries(other).every(([name, n]) => ownCount(one, name) >= n)

/** The higher of two marks: of the later epoch, or in each counter and chain. At the same place the first one's hash stays. */
export function highest(one: Marks, other: Marks): Marks {
  if (one.epoch !== other.epoch) return one.epoch > other.epoch ? one : other
  const counters = highestCounts(one.counters, other.counters)
  const chains = { ...one.chains }
  for (const [name, place] of Object.entries(other.chains))
    if (place.seq > (ownPlace(chains, name)?.seq ?? -1)) chains[name] = place
  return { epoch: one.epoch, counters, chains, versions: highestCounts(one.versions, other.versions) }
}

const isSamePlace = (one: Place, other: Place | undefined) => one.seq === other?.seq && one.hash === other.hash

/** Whether `marks` has everything that `other` has, so that nothing of `other` would be added to it. */
export function covers(marks: Marks, other: Marks): boolean {
  return (
    marks.epoch === other.epoch &&
    coversCounts(marks.counters, other.counters) &&
    coversCounts(marks.versions, other.versions) &&
    Object.entries(other.chains).every(([name, place]) => {
      const own = ownPlace(marks.chains, name)
      return own !== undefined && (own.seq > place.seq || isSamePlace(own, place))
    })
  )
}

/** Chains that have passed the floor's place: what they have there must still be the floor's hash. */
export function passedPlaces(floor: Marks, found: Marks): { name: string; place: Place }[] {
  return Object.entries(floor.chains).flatMap(([name, place]) =>
    (ownPlace(found.chains, name)?.seq ?? -1) > place.seq ? [{ name, place }] : [],
  )
}

/** In what a database is behind its floor, as far as its marks alone say. */
export function setbacksOf(floor: Marks, found: Marks): Setback[] {
  const setback = (what: string, at: number, database: number | null, isForked = false): Setback => ({
    what,
    floor: at,
    database,
    isForked,
  })
  if (floor.epoch !== found.epoch) return [setback('epoch', floor.epoch, found.epoch)]
  const counters = Object.entries(floor.counters).flatMap(([name, n]) => {
    const own = ownCount(found.counters, name)
    return own < n ? [setback(name, n, own)] : []
  })
  const chains = Object.entries(floor.chains).flatMap(([name, place]) => {
    const own = ownPlace(found.chains, name)
    if (own === undefined || own.seq < place.seq) return [setback(name, place.seq, own?.seq ?? null)]
    return own.seq === place.seq && own.hash !== place.hash ? [setback(name, place.seq, own.seq, true)] : []
  })
  return [...counters, ...chains]
}

const SETBACKS_TOLD = 5

const NAMES: Readonly<Record<string, string>> = {
  records: 'changes of records',
  ledger: 'numbers of ledger updates',
  epoch: 'the epoch of the floor',
}

/** A setback, for people. */
export function describeSetback({ what, floor, database, isForked }: Setback): string {
  const [kind, tenantId] = what.split(' ')
  const name = tenantId === undefined ? (NAMES[what] ?? what) : `the ${kind} chain of ${tenantId}`
  if (isForked) return `${name}: entry ${floor} is a different one`
  return `${name}: ${database ?? 'nothing'} instead of at least ${floor}`
}

/** The first setbacks, for people. */
export function describeSetbacks(setbacks: readonly Setback[]): string {
  const told = setbacks.slice(0, SETBACKS_TOLD).map(describeSetback)
  return [...told, ...(setbacks.length > SETBACKS_TOLD ? ['…'] : [])].join('; ')
}

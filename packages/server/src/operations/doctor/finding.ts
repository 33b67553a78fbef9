/** `problem`: something does not work, or data or secrets are at risk. `warning`: it may come to that. `note`: good to know. */
export type Level = 'ok' | 'note' | 'warning' | 'problem'

/** The result of one check. */
export interface Finding {
  /** What was looked at, e.g. `database.version`. The same name may come several times. */
  check: string
  level: Level
  /** For people, one sentence or two. Holds no secret. */
  seen: string
  /** What to do, a command to paste where there is one; null where nothing is to be done. */
  fix: string | null
}

/** A line of a table of checks: `seen` is false where it does not apply. */
type Line = Omit<Finding, 'seen'> & { seen: string | false }
type Seen<Text> = Omit<Finding, 'seen'> & { seen: Text }

const line =
  (level: Level) =>
  <Text extends string | false>(check: string, seen: Text, fix: string | null): Seen<Text> => ({
    check,
    level,
    seen,
    fix,
  })

/** Good to know. */
export const note = line('note')
/** May become a problem. */
export const warning = line('warning')
/** A problem now: the doctor exits with 1. */
export const problem = line('problem')
/** Nothing to do. */
export const ok = <Text extends string | false>(check: string, seen: Text) => line('ok')(check, seen, null)

/** A figure as a finding: which of the limits it is over. Without `problem` it is a warning at most. */
export function graded(
  check: string,
  figure: number,
  limits: { warning: number; problem?: number },
  seen: string,
  fix: string,
): Finding {
  if (figure > (limits.problem ?? Number.POSITIVE_INFINITY)) return problem(check, seen, fix)
  return figure > limits.warning ? warning(check, seen, fix) : ok(check, seen)
}

/** Reads a table of checks: the first line of a check that applies is its finding. */
export function firstOfEach(lines: readonly Line[]): Finding[] {
  const found = new Map<string, Finding>()
  for (const { seen, ...rest } of lines)
    if (seen !== false && !found.has(rest.check)) found.set(rest.check, { ...rest, seen })
  return [...found.values()]
}

/** Seconds in words that fit their size. */
export function inWords(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

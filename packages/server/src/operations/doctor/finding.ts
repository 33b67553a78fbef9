/** `problem`: something does not work, or data or secrets are at risk. `warning`: it may come to that. `note`: good to know. */
export type Level = 'ok' | 'note' | 'warning' | 'problem'

/** What one check saw. */
export interface Finding {
  /** What was looked at, e.g. `database.version`. The same name may come several times. */
  check: string
  level: Level
  /** For people, one sentence or two. Holds no secret. */
  seen: string
  /** What to do, a command to paste where there is one; null where nothing is to be done. */
  fix: string | null
}

/** Nothing to do. */
export const ok = (check: string, seen: string): Finding => ({ check, level: 'ok', seen, fix: null })

/** Good to know; `fix` may be null. */
export const note = (check: string, seen: string, fix: string | null): Finding => ({ check, level: 'note', seen, fix })

/** May become a problem. */
export const warning = (check: string, seen: string, fix: string): Finding => ({ check, level: 'warning', seen, fix })

/** Is one now: the doctor ends with 1. */
export const problem = (check: string, seen: string, fix: string): Finding => ({ check, level: 'problem', seen, fix })

/** Seconds in words that fit their size. */
export function inWords(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

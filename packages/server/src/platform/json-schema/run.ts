import { canonicalJson } from '../security/canonical-json.ts'

/** What a keyword finds wrong with a value. `path` leads to the value, or to the member that is missing or unknown. */
export interface Problem {
  path: string[]
  keyword: string
  params: Record<string, unknown>
  /** Begins with a small letter, has no full stop. */
  message: string
}

/** Thrown when a validation needs more steps than it may take, or nests too deep. */
export class TooComplex extends Error {}

const PROBLEMS_MAX = 50
const DEPTH_MAX = 256

/** Where a value lies in the data; null for the data itself. */
export type Path = { parent: Path; key: string } | null

function textOf(path: Path): string[] {
  const keys: string[] = []
  for (let at = path; at !== null; at = at.parent) keys.unshift(at.key)
  return keys
}

/** Members and elements that keywords have looked at, for `unevaluatedProperties` and `unevaluatedItems`. */
export interface Seen {
  names: Set<string>
  /** All elements before this one. */
  before: number
  indexes: Set<number>
}

/** One validation: its steps are counted, so that it ends after the same number of them on every machine. */
export class Run {
  readonly problems: Problem[] = []
  private steps: number
  private depth = 0
  /** Above 0 in branches that may fail: there, nothing is reported. */
  private quiet = 0
  /** Texts of objects and lists: many keywords may ask for the same one. */
  private readonly texts = new WeakMap<object, string>()

  constructor(steps: number) {
    this.steps = steps
  }

  /** @throws TooComplex when the steps are used up */
  spend(steps: number): void {
    this.steps -= steps
    if (this.steps < 0) throw new TooComplex()
  }

  /** The names of an object's members. */
  keysOf(value: object): string[] {
    const keys = Object.keys(value)
    this.spend(1 + keys.length)
    return keys
  }

  /** A value as text that is the same for equal values. */
  textOf(value: unknown): string {
    this.spend(2)
    if (typeof value === 'string') {
      this.spend(value.length >> 4)
      return JSON.stringify(value)
    }
    if (typeof value !== 'object' || value === null) return String(value)
    let text = this.texts.get(value)
    if (text === undefined) {
      text = canonicalJson(value)
      this.texts.set(value, text)
      this.spend(text.length >> 2)
    }
    this.spend(text.length >> 6)
    return text
  }

  get isQuiet(): boolean {
    return this.quiet > 0
  }

  get isFull(): boolean {
    return this.problems.length >= PROBLEMS_MAX
  }

  deeper<T>(work: () => T): T {
    this.depth += 1
    if (this.depth > DEPTH_MAX) throw new TooComplex()
    const result = work()
    this.depth -= 1
    return result
  }

  quietly(work: () => boolean): boolean {
    this.quiet += 1
    const result = work()
    this.quiet -= 1
    return result
  }

  /** Reports a problem. @returns false */
  fail(path: Path, keyword: string, params: Record<string, unknown>, message: string): false {
    if (!this.isQuiet && !this.isFull) this.problems.push({ path: textOf(path), keyword, params, message })
    return false
  }
}

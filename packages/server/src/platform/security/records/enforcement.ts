import { readFile, writeFile } from 'node:fs/promises'
import type { Config } from '../../config.ts'

/** How long a process that is not enforced may go without looking for the mark. */
const LOOK_MS = 1_000

/**
 * What a mark of now stands for: 1, the first records that had MACs; 2, those of users, second factors, user sessions and
 * templates, and all lists; 3, acts that wait for their entry in the audit log. A release that gives MACs to rows that are there already raises it, and says so in their kinds.
 */
export const GENERATION = 3

const TEXT = `Every record of this installation carries a MAC. A record without one is refused.
Halfkey refuses such records as long as this file is here. Keep it with the key file.
Generation ${GENERATION}
`

/** The generation of a mark's text. The first release wrote none, and a mark that was cut off counts as its. */
const generationIn = (text: string): number => Number(/^Generation (\d{1,9})$/m.exec(text)?.[1] ?? 1)

/** Whether rows without a MAC are refused: what the database says of it does not count. */
export interface Enforcement {
  /** Of the mark; 0 where there is none. */
  generation(): Promise<number>
  /** Whether rows without a MAC are refused that have had MACs since a generation; without one, all. */
  isEnforced(since?: number): Promise<boolean>
  /** From now on, for good. @returns whether the mark could be written; in this process it counts in either case */
  enforce(): Promise<boolean>
  /** Where the mark is. */
  path: string
}

/** The mark of a key file: beside it, because whoever can write there could take the key itself. */
function markOf({ kekFile }: Pick<Config, 'kekFile'>): string {
  return `${kekFile}.records`
}

/** Looks for the mark of a configuration. */
export function createEnforcement(config: Pick<Config, 'kekFile' | 'records'>): Enforcement {
  const path = markOf(config)
  let known = config.records === 'enforced' ? GENERATION : 0
  let lookedAt = Number.NEGATIVE_INFINITY

  async function generation(): Promise<number> {
    if (known >= GENERATION || performance.now() - lookedAt < LOOK_MS) return known
    lookedAt = performance.now()
    const marked = await readFile(path, 'utf8').then(generationIn, (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return 0
      throw error
    })
    // The mark is never taken away: what is enforced stays so.
    known = Math.max(known, marked)
    return known
  }

  return {
    path,
    generation,
    isEnforced: async (since = GENERATION) => known >= since || (await generation()) >= since,
    async enforce() {
      known = GENERATION
      return writeFile(path, TEXT, { mode: 0o644, flush: true }).then(
        () => true,
        () => false,
      )
    },
  }
}

import { stat, writeFile } from 'node:fs/promises'
import type { Config } from '../../config.ts'

/** How long a process that is not enforced may go without looking for the mark. */
const LOOK_MS = 1_000

const TEXT = `Every record of this installation carries a MAC. A record without one is refused.
Halfkey refuses such records as long as this file is here. Keep it with the key file.
`

/** Whether rows without a MAC are refused: what the database says of it does not count. */
export interface Enforcement {
  isEnforced(): Promise<boolean>
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
  let enforced = config.records === 'enforced'
  let lookedAt = Number.NEGATIVE_INFINITY

  return {
    path,
    async isEnforced() {
      // The mark is never taken away: what is enforced stays so.
      if (enforced || performance.now() - lookedAt < LOOK_MS) return enforced
      lookedAt = performance.now()
      enforced = await stat(path).then(
        () => true,
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return false
          throw error
        },
      )
      return enforced
    },
    async enforce() {
      enforced = true
      return writeFile(path, TEXT, { mode: 0o644, flush: true }).then(
        () => true,
        () => false,
      )
    },
  }
}

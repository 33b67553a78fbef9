import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What a page says about an error code beside what the tables know. Markdown. */
export interface Remedy {
  /** What the caller now knows: what was checked, and that nothing was done. */
  means: string
  /** The usual causes, the most common first. */
  causes: readonly string[]
  /** What to do, in this order. */
  fix: readonly string[]
  /** Whether to repeat the request unchanged: `never`, `later` after a wait, `safely` at once. */
  retry: 'never' | 'later' | 'safely'
  /** Where it occurs, for what the route tables do not list. */
  where?: string
  /** An element of `details` as the service sends it; absent where `details` is empty. */
  detail?: { field?: string; code: string; message: string } & Record<string, unknown>
}

const FOLDER = join(import.meta.dirname, 'remedies')

/**
 * A section of a file, without its heading: what the code means, the causes, what to do; then, where they differ from
 * `never`, the route tables and an empty `details`, a line each with retry, place and an element of `details` as JSON.
 */
const SECTION =
  /^(?<means>.+)\n\nCauses:\n(?<causes>(?:- .+\n)+)\nFix:\n(?<fix>(?:- .+\n?)+)(?:\nRetry: (?<retry>later|safely)\n?)?(?:\nWhere: (?<where>.+)\n?)?(?:\nDetail: (?<detail>\{.+\})\n?)?$/

const entriesOf = (list: string) =>
  list
    .trimEnd()
    .split(/\n?^- /m)
    .slice(1)

function readRemedy(place: string, text: string): Remedy {
  const { means, causes, fix, retry, where, detail } = SECTION.exec(text)?.groups ?? {}
  if (means === undefined || causes === undefined || fix === undefined)
    throw new Error(
      `${place} must have a line that says what it means, "Causes:", "Fix:", and no more than "Retry:", "Where:", "Detail:".`,
    )
  return {
    means,
    causes: entriesOf(causes),
    fix: entriesOf(fix),
    retry: (retry ?? 'never') as Remedy['retry'],
    ...(where === undefined ? {} : { where }),
    ...(detail === undefined ? {} : { detail: JSON.parse(detail) }),
  }
}

/** The remedies of all files by code: each file has a title and a `## code` for each. @throws Error for a section of another form, or a code that stands twice */
export function readRemedies(): Readonly<Record<string, Remedy>> {
  const remedies: Record<string, Remedy> = {}
  for (const file of readdirSync(FOLDER).sort()) {
    const [, ...sections] = readFileSync(join(FOLDER, file), 'utf8').split(/^## /m)
    for (const section of sections) {
      const [code, ...lines] = section.trimEnd().split('\n') as [string, ...string[]]
      if (code in remedies) throw new Error(`${file}: ${code} stands twice.`)
      remedies[code] = readRemedy(`${file}: ${code}`, lines.join('\n').trim())
    }
  }
  return remedies
}

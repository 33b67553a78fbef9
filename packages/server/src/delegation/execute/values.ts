import type { ErrorDetail } from '../../platform/http/errors.ts'
import type { Arguments, Command, Value } from '../../platform/ports/ledger.ts'
import { LISTED_MAX, TEXT_CHARS_MAX } from '../schema.ts'

const DEPTH_MAX = 16
const NAME_CHARS_MAX = 200

const problem = (field: string, message: string): ErrorDetail => ({ field, code: 'invalid', message })

/** What is wrong inside a value that came over the wire; null if nothing is. */
function valueProblem(value: unknown, field: string, depth: number): ErrorDetail | null {
  if (value === null || typeof value === 'boolean') return null
  if (typeof value === 'string')
    return value.length > TEXT_CHARS_MAX ? problem(field, `Must have at most ${TEXT_CHARS_MAX} characters.`) : null
  if (typeof value !== 'object') return problem(field, 'Must be text: write numbers as text, such as "3".')
  if (depth === DEPTH_MAX) return problem(field, `Must be nested at most ${DEPTH_MAX} levels deep.`)
  const entries = Object.entries(value)
  if (entries.length > LISTED_MAX) return problem(field, `Must have at most ${LISTED_MAX} entries.`)
  for (const [name, entry] of entries) {
    if (name.length > NAME_CHARS_MAX) return problem(field, `Names must have at most ${NAME_CHARS_MAX} characters.`)
    const found = valueProblem(entry, `${field}.${name}`, depth + 1)
    if (found !== null) return found
  }
  return null
}

/** What is wrong inside arguments that have passed their schema. Fields are named below `field`. */
export function argumentProblems(given: Arguments, field: string): ErrorDetail[] {
  return Object.entries(given).flatMap(([name, value]) => valueProblem(value, `${field}.${name}`, 0) ?? [])
}

const isPlain = (value: Value): boolean =>
  typeof value === 'string' || (Array.isArray(value) && value.every((entry) => typeof entry === 'string'))

/** The arguments that are neither a text nor a list of texts, for a ledger that knows nothing else. */
export function structureProblems(commands: readonly Command[]): ErrorDetail[] {
  return commands.flatMap((command, index) => {
    const [kind, given] =
      'create' in command ? ['create', command.create.arguments] : ['exercise', command.exercise.arguments]
    return Object.entries(given)
      .filter(([, value]) => !isPlain(value))
      .map(([name]) =>
        problem(`commands.${index}.${kind}.arguments.${name}`, 'Must be text or a list of texts on this ledger.'),
      )
  })
}

// The thread of `json-schemas.ts`: compiles schemas and validates data, one question after the other.
import { parentPort } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { type Compiled, compile, SchemaRefused } from './compile.ts'
import { apply } from './node.ts'
import { createPatterns } from './patterns.ts'
import { type Problem, Run, TooComplex } from './run.ts'

/** Data and its schema, as JSON. */
export interface Subject {
  schema: string
  data: string
}

export type Question = { check: string } | { validate: Subject[] }

/** Why a schema was refused. */
export interface Refusal {
  path: readonly string[]
  message: string
}

/** For each subject: its problems, or that it needs too many steps. */
export type Verdict = Problem[] | 'too complex'

export type Answer = { refusal: Refusal | null } | { verdicts: Verdict[] } | { failed: string }

const STEPS_MIN = 20_000
const STEPS_A_CHARACTER = 4
/** Of the schemas' text that is kept compiled. */
const CACHE_CHARS_MAX = 4 * 1024 * 1024

const cache = new LRUCache<string, Compiled>({ maxSize: CACHE_CHARS_MAX })

function compiled({ schema }: Subject): Compiled {
  const known = cache.get(schema)
  if (known !== undefined) return known
  const fresh = compile(JSON.parse(schema), createPatterns())
  cache.set(schema, fresh, { size: schema.length })
  return fresh
}

function validate(subject: Subject): Verdict {
  const { root, tracks } = compiled(subject)
  const run = new Run(STEPS_MIN + STEPS_A_CHARACTER * subject.data.length)
  const seen = tracks ? { names: new Set<string>(), before: 0, indexes: new Set<number>() } : null
  try {
    apply(root, run, JSON.parse(subject.data), null, seen)
    return run.problems
  } catch (error) {
    if (error instanceof TooComplex) return 'too complex'
    throw error
  }
}

function answer(question: Question): Answer {
  try {
    if ('validate' in question) return { verdicts: question.validate.map(validate) }
    compile(JSON.parse(question.check), createPatterns())
    return { refusal: null }
  } catch (error) {
    if (error instanceof SchemaRefused) return { refusal: { path: error.path, message: error.message } }
    return { failed: (error as Error).message }
  }
}

parentPort?.on('message', (question: Question) => {
  parentPort?.postMessage(answer(question))
})

import { RE2JS } from 're2js'
import type { PatternEngine } from './compile.ts'

const PATTERNS_MAX = 100
/** Instructions of all patterns of a schema. */
const PROGRAM_MAX = 5_000
/** Of all patterns of a schema: classes such as \p{L} take long to compile. */
const PATTERN_CHARS_MAX = 4_000
/** Characters times instructions that take as long as one step. */
const WORK_A_STEP = 64

/** RE2 for one schema: a match takes time in proportion to the text, whatever the pattern. */
export function createPatterns(): PatternEngine {
  let count = 0
  let size = 0
  let characters = 0
  const known = new Map<string, ReturnType<PatternEngine>>()
  return (pattern) => {
    const before = known.get(pattern)
    if (before !== undefined) return before
    count += 1
    if (count > PATTERNS_MAX) throw new Error(`a schema may have at most ${PATTERNS_MAX} patterns`)
    characters += pattern.length
    if (characters > PATTERN_CHARS_MAX)
      throw new Error(`the patterns of a schema may have ${PATTERN_CHARS_MAX} characters in all`)
    const program = RE2JS.compile(RE2JS.translateRegExp(pattern))
    const instructions = program.programSize()
    size += instructions
    if (size > PROGRAM_MAX) throw new Error('too large; use smaller repetition counts')
    const compiled: ReturnType<PatternEngine> = {
      test(run, text) {
        run.spend(1 + Math.ceil((text.length * instructions) / WORK_A_STEP))
        return program.test(text)
      },
    }
    known.set(pattern, compiled)
    return compiled
  }
}

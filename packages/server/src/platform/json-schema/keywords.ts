import { branchKeywords } from './branch-keywords.ts'
import { listKeywords } from './list-keywords.ts'
import type { Keyword } from './node.ts'
import { objectKeywords } from './object-keywords.ts'
import { valueKeywords } from './value-keywords.ts'

/** The keywords of JSON Schema 2020-12 that test something. The others are ignored, `format` included. */
export const keywords = {
  ...branchKeywords,
  ...objectKeywords,
  ...listKeywords,
  ...valueKeywords,
} satisfies Record<string, Keyword>

import { createContext, useContext } from 'react'
import { fieldErrors } from '../../../error-words.ts'

/** A refused attempt: the body that was sent, and the error. */
export interface Attempt {
  body: object
  error: unknown
  /** Only the policy was checked; nothing was to be created. */
  isCheck?: boolean
}

/** The error messages by path. */
export type Problems = Record<string, string>

const ProblemsContext = createContext<Problems>({})

/** Hands the messages to the inputs of the form inside it. */
export const ProblemsProvider = ProblemsContext.Provider

/** The messages of the last attempt that still apply. */
export const useProblems = (): Problems => useContext(ProblemsContext)

/** The message of a field, or of the first invalid element if it is a list. */
export function useProblem(path: string): string | undefined {
  const problems = useProblems()
  return problems[path] ?? Object.entries(problems).find(([each]) => each.startsWith(`${path}.`))?.[1]
}

/** The value at a path such as `policy.allow.0.templateId`. */
function at(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((found, name) => (found as Record<string, unknown> | undefined)?.[name], value)
}

/** The server's messages for fields that were not changed since. */
export function problemsOf(attempt: Attempt | null, body: object): Problems {
  if (attempt === null) return {}
  const same = ([path]: [string, string]) => JSON.stringify(at(body, path)) === JSON.stringify(at(attempt.body, path))
  return Object.fromEntries(Object.entries(fieldErrors(attempt.error)).filter(same))
}

/** The paths whose input shows its own message. */
const SHOWN =
  /^(name|expiresInSeconds|maxUses|serverExecute|policy\.(allow|deny)\.\d+\.(templateId|actions|choices(\.\d+)?|where\.\d+\.(path|op|value(\.\d+)?))|policy\.spend\.\d+(\.(asset\.(issuer|symbol)|amount|window))?|policy\.requireApproval\.\d+\.(asset\.(issuer|symbol)|above|expiresInSeconds)|policy\.conditions\.\d+(\.(hours\.(days|from|to|timeZone)|rate\.(executions|asset\.(issuer|symbol)|amount|withinSeconds)|expiresInSeconds))?|policy\.query\.templateIds(\.\d+)?)$/

/** The messages that no input shows. */
export function elsewhere(problems: Problems): [string, string][] {
  return Object.entries(problems).filter(([path]) => !SHOWN.test(path))
}

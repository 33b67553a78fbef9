import { fieldErrors } from '../../../api.ts'

/** A refused attempt: what was sent, and what of it was wrong by the field's name on the wire. */
export interface Attempt {
  body: object
  error: unknown
}

/** What is wrong with which field. */
export type Problems = Record<string, string>

/** What stands at a path such as `policy.allow.0.templateId`. */
function at(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((found, name) => (found as Record<string, unknown> | undefined)?.[name], value)
}

/** What the server said of fields that are still as they were sent: whatever was changed since is not wrong any more. */
export function problemsOf(attempt: Attempt | null, body: object): Problems {
  if (attempt === null) return {}
  const same = ([path]: [string, string]) => JSON.stringify(at(body, path)) === JSON.stringify(at(attempt.body, path))
  return Object.fromEntries(Object.entries(fieldErrors(attempt.error)).filter(same))
}

/** Fields that have an input of their own, which says what is wrong with them. */
const SHOWN =
  /^(name|expiresInSeconds|maxUses|serverExecute|policy\.(allow|deny)\.\d+\.(templateId|actions|choices(\.\d+)?|where\.\d+\.(path|op|value(\.\d+)?))|policy\.spend\.\d+(\.(asset\.(issuer|symbol)|amount|window))?|policy\.query\.templateIds(\.\d+)?)$/

/** What is wrong where no input shows it. */
export function elsewhere(problems: Problems): [string, string][] {
  return Object.entries(problems).filter(([path]) => !SHOWN.test(path))
}

/** What is wrong with a field, or with an element of the list that it is. */
export function problemAt(problems: Problems, path: string): string | undefined {
  return problems[path] ?? Object.entries(problems).find(([each]) => each.startsWith(`${path}.`))?.[1]
}

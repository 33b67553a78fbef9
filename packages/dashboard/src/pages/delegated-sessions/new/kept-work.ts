import { useEffect, useState } from 'react'
import { type Draft, UNITS } from './draft.ts'
import { readPolicy } from './read-policy.ts'

/** Policy JSON that is not valid, with its error. */
export type Broken = { text: string; message: string } | null

/** What is typed on the page of a new session. */
interface Work {
  draft: Draft
  /** The chosen starting point; null once the policy differs from it. */
  preset: string | null
  broken: Broken
}

const isText = (value: unknown) => typeof value === 'string'

function isDraft(value: unknown): value is Draft {
  if (typeof value !== 'object' || value === null) return false
  const draft = value as Draft
  return (
    [draft.name, draft.lifetime, draft.maxUses].every(isText) &&
    UNITS.includes(draft.unit) &&
    typeof draft.serverExecute === 'boolean' &&
    typeof readPolicy(JSON.stringify(draft.policy ?? null)) !== 'string'
  )
}

/** Null where nothing is stored, and where another version of this page stored something else. */
function read(key: string): Work | null {
  try {
    const { draft, preset, broken } = JSON.parse(sessionStorage.getItem(key) ?? '{}') as Partial<Work>
    if (!isDraft(draft)) return null
    return {
      draft,
      preset: preset ?? null,
      broken: isText(broken?.text) && isText(broken?.message) ? (broken as Broken) : null,
    }
  } catch {
    return null
  }
}

/** The work under a key. It survives a reload of this tab, until `clear` is called or the session ends. */
export function useKeptWork(key: string, initial: () => Work): [Work, (work: Work) => void, () => void] {
  const [work, setWork] = useState(() => read(key) ?? initial())
  useEffect(() => sessionStorage.setItem(key, JSON.stringify(work)), [key, work])
  return [work, setWork, () => sessionStorage.removeItem(key)]
}

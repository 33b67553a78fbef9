import { useState } from 'react'
import { useSession } from '../../shell/session-context.ts'

/** A job that was started in this browser, kept over reloads until it is dismissed. `name` tells it from others. */
export function useKeptJob(name: string) {
  const { session } = useSession()
  const key = `halfkey.${name}.${session.tenant.id}`
  const [jobId, setJobId] = useState(() => localStorage.getItem(key))
  return {
    jobId,
    begin(id: string) {
      localStorage.setItem(key, id)
      setJobId(id)
    },
    forget() {
      localStorage.removeItem(key)
      setJobId(null)
    },
  }
}

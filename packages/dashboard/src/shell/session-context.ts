import { createContext, useContext } from 'react'
import type { DashboardSession } from '../api.ts'

/** The session that is signed in, and how it ends. */
export interface SessionHolder {
  session: DashboardSession
  leave(): Promise<void>
  /**
   * Goes over to another tenant (the operator's session only), which the address names already. Until its session is there
   * no page is drawn: none is to act in a tenant while it shows another one.
   */
  showTenant(tenantId: string): Promise<void>
}

export const SessionContext = createContext<SessionHolder | null>(null)

/** Who is signed in. Only below the session gate. */
export function useSession(): SessionHolder {
  const holder = useContext(SessionContext)
  if (holder === null) throw new Error('useSession outside of the session gate')
  return holder
}

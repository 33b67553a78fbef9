import { createContext, useContext } from 'react'
import type { DashboardSession } from '../api.ts'

/** The session that is signed in, and how it ends. */
export interface SessionHolder {
  session: DashboardSession
  leave(): Promise<void>
  /**
   * Switches to another tenant (the operator's session only), which the URL names already. Until its session is loaded,
   * no page is rendered, so that no page shows one tenant and acts in another.
   */
  showTenant(tenantId: string): Promise<void>
  /** Switches to another app, for a member who has some apps. */
  showApp(appId: string): Promise<void>
}

export const SessionContext = createContext<SessionHolder | null>(null)

/** The current session. Only for use below the session gate. */
export function useSession(): SessionHolder {
  const holder = useContext(SessionContext)
  if (holder === null) throw new Error('useSession outside of the session gate')
  return holder
}

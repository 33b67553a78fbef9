import { RouterProvider } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { type DashboardSession, messageOf, onSessionEnd, readSession, setTenant, signIn, signOut } from '../api.ts'
import { ErrorState, Loading } from '../components/layout/states.tsx'
import { queryClient } from '../query-client.ts'
import { router } from '../router.tsx'
import { SessionContext, type SessionHolder } from './session-context.ts'
import { SignIn } from './sign-in.tsx'

type State =
  | { is: 'looking' }
  | { is: 'out'; notice?: string }
  | { is: 'in'; session: DashboardSession }
  | { is: 'failed'; error: unknown }

/** The token of a one-time link, taken out of the address at once: it must not stay in the history. */
function takeLink(): string | null {
  const link = /^#link=([\w-]+)$/.exec(location.hash)?.[1] ?? null
  if (link !== null) history.replaceState(null, '', location.pathname + location.search)
  return link
}

function tenantInUrl(): string | null {
  return new URLSearchParams(location.search).get('tenant')
}

/** From now on all calls are about the session's tenant, also if another tab signs in to another one. */
function shown(session: DashboardSession | null): State {
  if (session === null) return { is: 'out' }
  setTenant(session.tenant.id)
  return { is: 'in', session }
}

async function arrive(): Promise<State> {
  const link = takeLink()
  setTenant(tenantInUrl())
  try {
    if (link !== null) return shown(await signIn({ link }))
  } catch (error) {
    return { is: 'out', notice: messageOf(error) }
  }
  try {
    return shown(await readSession())
  } catch (error) {
    // A link to a tenant that is not there, or not this session's, leads to the session's own.
    if (tenantInUrl() === null || (error as { status?: number }).status !== 404) return { is: 'failed', error }
    forgetTenantInUrl()
    setTenant(null)
    return shown(await readSession())
  }
}

/** Takes a tenant that is not there, or not this session's, out of the address: it then leads to the session's own. */
function forgetTenantInUrl(): void {
  const url = new URL(location.href)
  url.searchParams.delete('tenant')
  router.history.replace(url.pathname + url.search)
}

/** The session in another tenant; where that cannot be, in the one that it is in. */
async function goOver(session: DashboardSession, tenantId: string): Promise<State> {
  setTenant(tenantId)
  queryClient.clear()
  try {
    return shown(await readSession())
  } catch (error) {
    if ((error as { status?: number }).status !== 404) return { is: 'failed', error }
    forgetTenantInUrl()
    return shown(session)
  }
}

// Once a document: a one-time link counts once, however often a component is drawn.
let arrival: Promise<State> | undefined

/** Shows the pages to whoever is signed in, and the way in to everybody else. */
export function SessionGate() {
  const [state, setState] = useState<State>({ is: 'looking' })
  useEffect(() => {
    arrival ??= arrive()
    void arrival.then(setState)
    onSessionEnd(() => {
      queryClient.clear()
      setState((before) =>
        before.is === 'in' ? { is: 'out', notice: 'Your session has ended. Sign in again.' } : before,
      )
    })
  }, [])
  const holder = useMemo<SessionHolder | null>(() => {
    if (state.is !== 'in') return null
    return {
      session: state.session,
      async leave() {
        await signOut().catch((error: unknown) => {
          // It has ended already, in another tab or by itself: what was read by it goes all the same.
          if ((error as { status?: number }).status !== 401) throw error
        })
        queryClient.clear()
        setState({ is: 'out', notice: 'You are signed out.' })
      },
      async showTenant(tenantId) {
        setState({ is: 'looking' })
        setState(await goOver(state.session, tenantId))
      },
    }
  }, [state])
  if (state.is === 'looking') return <Loading />
  if (state.is === 'failed') return <ErrorState error={state.error} onRetry={() => location.reload()} />
  if (holder === null)
    return (
      <SignIn
        notice={state.is === 'out' ? state.notice : undefined}
        onSignedIn={(session) => setState(shown(session))}
      />
    )
  return (
    <SessionContext value={holder}>
      <RouterProvider router={router} />
    </SessionContext>
  )
}

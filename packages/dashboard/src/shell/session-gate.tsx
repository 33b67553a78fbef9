import { RouterProvider } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import {
  type DashboardSession,
  onSessionEnd,
  readSession,
  setApp,
  setTenant,
  signIn,
  signOut,
  takeUpApp,
} from '../api.ts'
import { Button } from '../components/controls/button.tsx'
import { ErrorState, Loading } from '../components/layout/states.tsx'
import { messageOf } from '../error-words.ts'
import { takeLoginOutcome } from '../login-outcome.ts'
import { queryClient } from '../query-client.ts'
import { preloadPage, router } from '../router.tsx'
import { SessionContext, type SessionHolder } from './session-context.ts'
import { SignIn } from './sign-in.tsx'

type State =
  | { is: 'looking' }
  | { is: 'out'; notice?: string }
  | { is: 'asked'; link: string }
  | { is: 'in'; session: DashboardSession }
  | { is: 'failed'; error: unknown }

/** The token of a one-time link. It is removed from the URL at once, so that it does not stay in the history. */
function takeLink(): { token: string; isMailed: boolean } | null {
  const [, mailed, token] = /^#(mailed-)?link=([\w-]+)$/.exec(location.hash) ?? []
  if (token === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return { token, isMailed: mailed !== undefined }
}

function tenantInUrl(): string | null {
  return new URLSearchParams(location.search).get('tenant')
}

/** The outcome of a visit to the login of an organisation, for the sign-in page. Who is signed in reads it in their account. */
const signInNotice = (state: State): State => {
  const outcome = state.is === 'out' ? takeLoginOutcome() : null
  return outcome === null ? state : { is: 'out', notice: outcome.words }
}

/** Pins all calls to the session's tenant, even if another tab signs in to another one. */
function shown(session: DashboardSession | null): State {
  if (session === null) return { is: 'out' }
  setTenant(session.tenant.id)
  return { is: 'in', session }
}

async function arrive(): Promise<State> {
  const link = takeLink()
  setTenant(tenantInUrl())
  try {
    // Programs that check emails open links, too.
    if (link?.isMailed) return { is: 'asked', link: link.token }
    if (link !== null) return shown(await signIn({ link: link.token }))
  } catch (error) {
    return { is: 'out', notice: messageOf(error) }
  }
  const hasApp = takeUpApp()
  try {
    return shown(await readSession())
  } catch (error) {
    // The app may be another member's choice in this tab, or the member may have it no longer.
    if (hasApp && (error as { status?: number }).status === 404) return inFirstApp()
    // A link to a tenant that does not exist, or that this session may not see, opens the session's own.
    if (tenantInUrl() === null || (error as { status?: number }).status !== 404) return { is: 'failed', error }
    forgetTenantInUrl()
    setTenant(null)
    return shown(await readSession())
  }
}

/** The session without the app that this tab remembered. */
async function inFirstApp(): Promise<State> {
  setApp(null)
  return readSession().then(shown, (error: unknown) => ({ is: 'failed', error }) as const)
}

/** Removes an unknown tenant from the URL, which then stands for the session's own. */
function forgetTenantInUrl(): void {
  const url = new URL(location.href)
  url.searchParams.delete('tenant')
  router.history.replace(url.pathname + url.search)
}

/** The session in another tenant; in the current one if that fails. */
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

/** Asks before the link of an email is used up. */
function ByMailedLink({ link, onDone }: { link: string; onDone: (state: State) => void }) {
  const [busy, setBusy] = useState(false)
  const enter = async () => {
    setBusy(true)
    await signIn({ link }).then(
      (session) => onDone(shown(session)),
      (error: unknown) => onDone({ is: 'out', notice: messageOf(error) }),
    )
  }
  return (
    <main className="mx-auto flex min-h-dvh max-w-md flex-col justify-center gap-6 px-4 py-10">
      <h1 className="text-xl font-semibold">Sign in to Halfkey</h1>
      <p className="text-sm text-soft">
        You opened a link from an email. It signs you in once. If you did not expect it, close this page.
      </p>
      <Button tone="primary" busy={busy} onClick={() => void enter()}>
        Sign in
      </Button>
    </main>
  )
}

// Once per document: a one-time link is valid once, however often a component renders.
let arrival: Promise<State> | undefined

/** Shows the pages if somebody is signed in, and otherwise the sign-in page. */
export function SessionGate() {
  const [state, setState] = useState<State>({ is: 'looking' })
  useEffect(() => {
    if (arrival === undefined) {
      arrival = arrive().then(signInNotice)
      preloadPage()
    }
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
          // The session has already ended, in another tab or by expiry. The cached data is cleared all the same.
          if ((error as { status?: number }).status !== 401) throw error
        })
        queryClient.clear()
        setState({ is: 'out', notice: 'You are signed out.' })
      },
      async showApp(appId) {
        setState({ is: 'looking' })
        setApp(appId)
        queryClient.clear()
        setState(await readSession().then(shown, (error: unknown) => ({ is: 'failed', error }) as const))
      },
      async showTenant(tenantId) {
        setState({ is: 'looking' })
        setState(await goOver(state.session, tenantId))
      },
    }
  }, [state])
  if (state.is === 'looking') return <Loading />
  if (state.is === 'failed') return <ErrorState error={state.error} onRetry={() => location.reload()} />
  if (state.is === 'asked') return <ByMailedLink link={state.link} onDone={setState} />
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

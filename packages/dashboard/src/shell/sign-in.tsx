import { type FormEvent, useEffect, useState } from 'react'
import { type DashboardSession, readWays, signIn, signInWithPasskey, urlOfLogin, type Ways } from '../api.ts'
import { Button } from '../components/controls/button.tsx'
import { TextField } from '../components/controls/field.tsx'
import { CodeBlock } from '../components/records/copy.tsx'
import { messageOf } from '../error-words.ts'
import { hasPasskeys, passkeyMessageOf } from '../passkeys.ts'
import { WithEmail } from './email-sign-in.tsx'
import { Mark } from './mark.tsx'

/** For members. A member without a passkey comes by a link, which needs no form. */
function WithPasskey({ onSignedIn }: { onSignedIn: (session: DashboardSession) => void }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | undefined>()
  const [ways, setWays] = useState<Ways>({ emailCode: false, oidc: null })
  // Without an answer the page offers what always works.
  useEffect(() => void readWays().then(setWays, () => {}), [])
  const leave = async () => {
    try {
      location.assign(await urlOfLogin())
    } catch (failure) {
      setError(messageOf(failure))
    }
  }
  const enter = async () => {
    setBusy(true)
    setError(undefined)
    try {
      onSignedIn(await signInWithPasskey())
    } catch (failure) {
      setError(passkeyMessageOf(failure))
      setBusy(false)
    }
  }
  return (
    <section className="flex flex-col gap-4 rounded-card border bg-surface p-5 shadow-card">
      <div>
        <h2 className="font-semibold">As a member</h2>
        <p className="mt-1 text-sm text-soft">The first time, open the link of your invitation.</p>
      </div>
      {error === undefined ? null : (
        <p role="alert" className="text-sm text-danger">
          {error}
        </p>
      )}
      <Button tone="primary" busy={busy} disabled={!hasPasskeys()} onClick={() => void enter()}>
        Use a passkey
      </Button>
      {ways.oidc === null ? null : (
        <Button onClick={() => void leave()}>
          <span>
            Sign in with <bdi>{ways.oidc.name}</bdi> ({ways.oidc.host})
          </span>
        </Button>
      )}
      {ways.emailCode ? <WithEmail onSignedIn={onSignedIn} /> : null}
    </section>
  )
}

/** The sign-in page: a passkey, a one-time link or a secret key. The key is sent once and stored nowhere. */
export function SignIn({
  notice,
  onSignedIn,
}: {
  notice?: string | undefined
  onSignedIn: (session: DashboardSession) => void
}) {
  const [key, setKey] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | undefined>()
  useEffect(() => {
    document.title = 'Sign in · Halfkey'
  }, [])
  const enter = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      onSignedIn(await signIn({ key: key.trim() }))
    } catch (failure) {
      setError(messageOf(failure))
      setBusy(false)
    }
  }
  return (
    <main className="mx-auto flex min-h-dvh max-w-md flex-col justify-center gap-6 px-4 py-10">
      <div className="flex items-center gap-3">
        <Mark />
        <h1 className="text-xl font-semibold">Sign in to Halfkey</h1>
      </div>
      {notice === undefined ? null : (
        <p role="status" className="rounded-control bg-accent-wash px-4 py-3 text-sm text-ink">
          {notice}
        </p>
      )}
      <WithPasskey onSignedIn={onSignedIn} />
      <section className="flex flex-col gap-3 rounded-card border bg-surface p-5 shadow-card">
        <h2 className="font-semibold">With a one-time link</h2>
        <p className="text-sm text-soft">
          Run this command on the server. It prints a link that signs you in to all tenants.
        </p>
        <CodeBlock label="command" text="npm run halfkey -- dashboard link" />
      </section>
      <section className="rounded-card border bg-surface p-5 shadow-card">
        <form onSubmit={(event) => void enter(event)} className="flex flex-col gap-4">
          <div>
            <h2 className="font-semibold">With an API key</h2>
            <p className="mt-1 text-sm text-soft">You can see and do what the scopes of the key allow.</p>
          </div>
          <TextField
            label="Secret key"
            type="password"
            value={key}
            onChange={setKey}
            placeholder="hk_sk_…"
            autoComplete="off"
            spellCheck={false}
            error={error}
            required
          />
          <Button type="submit" busy={busy}>
            Sign in
          </Button>
        </form>
      </section>
    </main>
  )
}

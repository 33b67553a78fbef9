import { createBrowserClient } from '@halfkey/sdk/browser'
import { HalfkeyProvider, useSession, useSignIn, useUser } from '@halfkey/sdk/react'
import { type FormEvent, useState } from 'react'
import { createRoot } from 'react-dom/client'

// Once, outside of components.
const halfkey = createBrowserClient({
  baseUrl: import.meta.env.VITE_HALFKEY_URL,
  publishableKey: import.meta.env.VITE_HALFKEY_KEY,
})

function SignIn() {
  const { signIn, createPasskey, pending, error } = useSignIn({ autofill: true })
  const [email, setEmail] = useState('')
  function submit(event: FormEvent) {
    event.preventDefault()
    void createPasskey({ email })
  }
  return (
    <form onSubmit={submit}>
      <label>
        Email{' '}
        <input
          type="email"
          autoComplete="username webauthn"
          required
          value={email}
          onChange={(event) => setEmail(event.target.value)}
        />
      </label>
      <button type="submit" disabled={pending}>
        Create an account
      </button>
      <button type="button" disabled={pending} onClick={() => signIn()}>
        Sign in
      </button>
      {error instanceof Error && <p role="alert">{error.message}</p>}
    </form>
  )
}

function Account() {
  const user = useUser()
  const { signOut, pending, error } = useSignIn()
  return (
    <section>
      <p>Signed in as {user?.email}</p>
      <button type="button" disabled={pending} onClick={() => signOut()}>
        Sign out
      </button>
      {error instanceof Error && <p role="alert">{error.message}</p>}
    </section>
  )
}

function App() {
  const { status } = useSession()
  if (status === 'loading') return null
  return status === 'signed_in' ? <Account /> : <SignIn />
}

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no element with the id "root"')
createRoot(root).render(
  <HalfkeyProvider client={halfkey}>
    <App />
  </HalfkeyProvider>,
)

// An app's page by the SDK's hooks: what the tests of the SDK in a browser click through, and what a server renders of it.
import { HalfkeyProvider, useSession, useSignIn, useUser, useWallet } from '@halfkey/sdk/react'
import { createElement as h, useState } from 'react'

const button = (text, onClick) => h('button', { type: 'button', onClick }, text)

/** How the last way in or out went, in words that a test can wait for. */
function wordOf({ pending, error }) {
  if (pending) return 'pending'
  return error === null ? 'fine' : (error.reason ?? error.code ?? String(error))
}

function Wallet() {
  const { status, wallet, create, reload } = useWallet()
  return h(
    'section',
    { 'aria-label': 'Wallet' },
    h('output', { id: 'wallet' }, `${status} ${wallet?.id ?? ''}`),
    button('Create wallet', () => create()),
    button('Read wallet again', reload),
  )
}

function Person({ autofill }) {
  const session = useSession()
  const user = useUser()
  const signIn = useSignIn({ autofill })
  const [email, setEmail] = useState('')
  return h(
    'main',
    null,
    h('output', { id: 'session' }, `${session.status} ${user?.email ?? session.guestId ?? ''}`),
    h('output', { id: 'way' }, wordOf(signIn)),
    h(
      'label',
      null,
      'Email',
      h('input', {
        value: email,
        autoComplete: 'username webauthn',
        onChange: (event) => setEmail(event.target.value),
      }),
    ),
    button('Sign up', () => signIn.createPasskey({ email })),
    button('Add a passkey', () => signIn.createPasskey()),
    button('Sign in', () => signIn.signIn()),
    button('Sign out', () => signIn.signOut()),
    h(Wallet),
  )
}

export const App = ({ client, autofill = false }) => h(HalfkeyProvider, { client }, h(Person, { autofill }))

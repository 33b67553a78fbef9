import { type FormEvent, useState } from 'react'
import { askForCode, type DashboardSession, signInWithCode } from '../api.ts'
import { Button } from '../components/controls/button.tsx'
import { TextField } from '../components/controls/field.tsx'
import { messageOf } from '../error-words.ts'

/** For members whose tenant allows it: their address, then the code that was mailed to it. */
export function WithEmail({ onSignedIn }: { onSignedIn: (session: DashboardSession) => void }) {
  const [email, setEmail] = useState('')
  const [code, setCode] = useState('')
  const [challengeId, setChallengeId] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | undefined>()
  const send = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      if (challengeId === null) setChallengeId(await askForCode(email.trim()))
      else onSignedIn(await signInWithCode(challengeId, code.trim()))
    } catch (failure) {
      setError(messageOf(failure))
    }
    setBusy(false)
  }
  const startOver = () => {
    setChallengeId(null)
    setCode('')
    setError(undefined)
  }
  return (
    <form onSubmit={(event) => void send(event)} className="flex flex-col gap-4 border-t pt-4">
      {challengeId === null ? (
        <TextField
          label="Email"
          type="email"
          value={email}
          onChange={setEmail}
          autoComplete="email"
          spellCheck={false}
          error={error}
          required
        />
      ) : (
        <TextField
          label="Code"
          hint={`If ${email.trim()} is the verified address of a member, a code is on its way.`}
          value={code}
          onChange={setCode}
          inputMode="numeric"
          autoComplete="one-time-code"
          error={error}
          required
        />
      )}
      <Button type="submit" busy={busy}>
        {challengeId === null ? 'Email me a code' : 'Sign in with the code'}
      </Button>
      {challengeId === null ? null : <Button onClick={startOver}>Use another address</Button>}
    </form>
  )
}

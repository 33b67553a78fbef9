import type { Command, DelegatedSession, HalfkeyClient } from '@halfkey/sdk'
import { isHalfkeyError } from '@halfkey/sdk'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { allows, api, apiAs } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { TextArea, TextField } from '../../../components/controls/field.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { CodeBlock } from '../../../components/records/copy.tsx'
import { messageOf } from '../../../error-words.ts'
import { useSession } from '../../../shell/session-context.ts'
import { useToken } from '../delegate-token.ts'
import { DecisionView } from '../policy/decision-view.tsx'
import { useTemplates } from '../policy/templates.ts'
import { BLANK, examplesFor } from './try-examples.ts'

const CONTRACTS_MAX = 50

const TOKEN = /^dst_[!-~]+$/

/**
 * The client for dry runs: with the token, or as a server if the session allows that; null if neither is possible. The
 * key needs its scope in both cases.
 */
function useClient(session: DelegatedSession, token: string): HalfkeyClient | null {
  const holder = useSession()
  if (!allows(holder.session, 'delegated_sessions:execute')) return null
  if (TOKEN.test(token)) return apiAs({ delegateToken: token })
  return session.serverExecute ? api : null
}

/** The typed text as commands. */
function parseCommands(text: string): { commands: Command[] } | { error: string } {
  try {
    const value: unknown = JSON.parse(text)
    return { commands: (Array.isArray(value) ? value : [value]) as Command[] }
  } catch (error) {
    return { error: `This is not valid JSON: ${messageOf(error)}` }
  }
}

function TokenField({
  session,
  token,
  onChange,
}: {
  session: DelegatedSession
  token: string
  onChange: (token: string) => void
}) {
  const byServer = session.serverExecute
  const wrong = token !== '' && !TOKEN.test(token) ? 'A session token starts with dst_.' : undefined
  return (
    <TextField
      label={byServer ? 'Session token (optional)' : 'Session token'}
      type="password"
      value={token}
      onChange={(value) => onChange(value.trim())}
      placeholder="dst_…"
      autoComplete="off"
      error={wrong}
      hint={
        byServer
          ? 'Servers can use this session without its token. The dashboard keeps the token in memory only.'
          : 'The token was shown when the session was created. The dashboard keeps it in memory only.'
      }
    />
  )
}

/** An error that is not a decision of the policy. */
function Refusal({ error }: { error: unknown }) {
  return (
    <div
      role="alert"
      className="rounded-card border border-danger/40 bg-danger-wash px-5 py-4 [overflow-wrap:anywhere]"
    >
      <p className="font-medium text-danger">{messageOf(error)}</p>
      {isHalfkeyError(error) ? <p className="mt-0.5 font-mono text-[0.8125rem] text-danger">{error.code}</p> : null}
    </div>
  )
}

function useExamples(session: DelegatedSession, client: HalfkeyClient | null, token: string) {
  const templates = useTemplates()
  const canRead = session.policy.query !== undefined && session.status === 'active'
  const held = useQuery({
    // Another token may see other contracts. The token itself must not become part of the query key.
    queryKey: ['delegated-sessions', session.id, 'contracts', token === '' ? 'server' : token.length],
    queryFn: ({ signal }) =>
      (client as HalfkeyClient).delegatedSessions.query(session.id, { limit: CONTRACTS_MAX }, { signal }),
    enabled: client !== null && canRead,
    retry: false,
  })
  const wallet = useQuery({
    queryKey: ['wallets', session.walletId],
    queryFn: ({ signal }) => api.wallets.get(session.walletId, { signal }),
    retry: false,
  })
  return examplesFor(session, templates, held.data?.contracts ?? [], wallet.data?.partyId ?? '')
}

/** Dry runs: checks commands against the session's policy and its ledger. */
export function TryIt({ session }: { session: DelegatedSession }) {
  const holder = useSession()
  const [token, setToken] = useToken(session.id)
  const client = useClient(session, token)
  const examples = useExamples(session, client, token)
  const [typed, setTyped] = useState<string | null>(null)
  const text = typed ?? JSON.stringify(examples[0]?.commands ?? BLANK, null, 2)
  const [invalid, setInvalid] = useState<string | undefined>()
  const run = useMutation({
    mutationFn: (commands: Command[]) => (client as HalfkeyClient).delegatedSessions.dryRun(session.id, commands),
  })
  const write = (next: string) => {
    setTyped(next)
    setInvalid(undefined)
  }
  const check = () => {
    const parsed = parseCommands(text)
    run.reset()
    setInvalid('error' in parsed ? parsed.error : undefined)
    if ('error' in parsed) return
    // Keep the text that was checked, even if a newer contract changes the first example.
    setTyped(text)
    run.mutate(parsed.commands)
  }
  if (!allows(holder.session, 'delegated_sessions:execute'))
    return (
      <Card>
        <p className="text-soft">
          Your API key cannot execute transactions or dry runs: it does not have the scope delegated_sessions:execute.
        </p>
      </Card>
    )
  if (session.status !== 'active')
    return (
      <Card>
        <p className="text-soft">This session has ended. It can no longer execute transactions.</p>
      </Card>
    )
  return (
    <>
      <Card title="Try it" description="Shows what these commands would do now, and why. Nothing is changed.">
        <div className="flex flex-col gap-4">
          <TokenField session={session} token={token} onChange={setToken} />
          {examples.length === 0 ? null : (
            <fieldset className="flex flex-wrap items-center gap-2">
              <legend className="float-left mr-1 text-sm text-soft">Examples</legend>
              {examples.map(({ label, commands }) => (
                <Button key={label} onClick={() => write(JSON.stringify(commands, null, 2))}>
                  {label}
                </Button>
              ))}
            </fieldset>
          )}
          <TextArea label="Commands" mono rows={14} value={text} onChange={write} error={invalid} />
          <div className="flex flex-wrap items-center gap-3">
            <Button tone="primary" busy={run.isPending} disabled={client === null} onClick={check}>
              Dry run
            </Button>
            {client === null ? <span className="text-sm text-soft">Enter the session token first.</span> : null}
          </div>
        </div>
      </Card>
      {run.isError ? <Refusal error={run.error} /> : null}
      {run.data === undefined ? null : <DecisionView execution={run.data} session={session} />}
      {run.data?.decision?.allowed === true ? (
        <Card title="Run it" description="TOKEN is the session token. HALFKEY_KEY is any API key of the app.">
          <CodeBlock label="command" text={executeCommand(holder.session.publicUrl, session.id, text)} />
        </Card>
      ) : null}
    </>
  )
}

function executeCommand(publicUrl: string, id: string, text: string): string {
  const parsed = parseCommands(text)
  const body = JSON.stringify(parsed).replaceAll("'", "'\\''")
  return `curl -sS ${publicUrl}/v1/delegated-sessions/${id}/execute -H "x-api-key: $HALFKEY_KEY" -H "authorization: Bearer $TOKEN" \\\n  -H 'content-type: application/json' -d '${body}'`
}

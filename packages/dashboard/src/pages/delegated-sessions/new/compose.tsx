import type { DelegatedSessionWithToken, Policy, Wallet } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { allows, api, apiFor } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { fieldErrors, messageOf } from '../../../error-words.ts'
import { useSession } from '../../../shell/session-context.ts'
import { keepToken } from '../delegate-token.ts'
import { PolicyInWords } from '../policy/policy-view.tsx'
import { bodyOf, type Draft } from './draft.ts'
import { type Attempt, elsewhere, ProblemsProvider, problemsOf, useProblems } from './field-problems.ts'
import { type Broken, useKeptWork } from './kept-work.ts'
import { LimitsCard } from './limits-card.tsx'
import { PolicyEditor } from './policy-editor.tsx'
import { PRESETS, type Preset } from './presets.ts'

const [FIRST] = PRESETS as [Preset]

const initialDraft = (issuer: string): Draft => ({
  name: '',
  policy: FIRST.policy(issuer),
  lifetime: '1',
  unit: 'hours',
  maxUses: '',
  serverExecute: true,
})

function Presets({ chosen, onChoose }: { chosen: string | null; onChoose: (preset: Preset) => void }) {
  return (
    <Card title="Start with" description="You can change everything below. Choosing another one replaces the policy.">
      <div className="grid gap-3 sm:grid-cols-2">
        {PRESETS.map((preset) => (
          <button
            key={preset.id}
            type="button"
            aria-pressed={chosen === preset.id}
            onClick={() => onChoose(preset)}
            className="flex min-h-11 flex-col rounded-control border border-edge/50 px-4 py-3 text-left hover:bg-raised aria-pressed:border-accent aria-pressed:bg-accent-wash"
          >
            <span className="block font-medium">{preset.label}</span>
            <span className="block text-sm text-soft">{preset.note}</span>
          </button>
        ))}
      </div>
    </Card>
  )
}

function Refused({ error, isCheck = false }: Pick<Attempt, 'error' | 'isCheck'>) {
  const problems = useProblems()
  const others = elsewhere(problems)
  const shown = Object.keys(problems).length - others.length
  const isOfFields = Object.keys(fieldErrors(error)).length > 0
  // Every field that it named was changed since.
  if (isOfFields && shown + others.length === 0) return null
  return (
    <div role="alert" className="rounded-control bg-danger-wash px-4 py-3 text-sm text-danger [overflow-wrap:anywhere]">
      <p className="font-medium">
        {!isOfFields ? messageOf(error) : isCheck ? 'The policy is not valid.' : 'The session was not created.'}
      </p>
      {shown === 0 ? null : (
        <p className="mt-1">{shown === 1 ? 'One field has an error.' : `${shown} fields have errors.`}</p>
      )}
      {others.map(([path, message]) => (
        <p key={path} className="mt-1">
          <code className="font-mono text-xs">{path}</code> {message}
        </p>
      ))}
    </div>
  )
}

function Summary({
  policy,
  isBroken,
  attempt,
  children,
}: {
  policy: Policy
  isBroken: boolean
  attempt: Attempt | null
  children: ReactNode
}) {
  return (
    <Card title="In words">
      <div className="flex flex-col gap-5">
        <PolicyInWords policy={policy} />
        {attempt === null ? null : <Refused {...attempt} />}
        {isBroken ? <p className="text-sm text-warn">The JSON is not a valid policy.</p> : null}
        {children}
      </div>
    </Card>
  )
}

/** Edits a new session's policy and limits, describes them, and starts the session. */
export function Compose({
  wallet,
  issuer,
  onCreated,
}: {
  wallet: Wallet
  issuer: string
  onCreated: (session: DelegatedSessionWithToken) => void
}) {
  const { session: holder } = useSession()
  const [work, setWork, clearWork] = useKeptWork(`halfkey.new-session.${holder.tenant.id}.${wallet.id}`, () => ({
    draft: initialDraft(issuer),
    preset: FIRST.id,
    broken: null,
  }))
  const { draft, preset, broken } = work
  const setDraft = (next: Draft) => setWork({ ...work, draft: next })
  const [choices, setChoices] = useState(0)
  const [attempt, setAttempt] = useState<Attempt | null>(null)
  const queries = useQueryClient()
  const ownKey = wallet.custody !== 'embedded'
  const body = bodyOf(draft, ownKey)
  const create = useMutation({
    mutationFn: () => apiFor(wallet.userId).delegatedSessions.create(body),
    onMutate: () => setAttempt(null),
    onError: (error) => setAttempt({ body, error }),
    onSuccess: async (session) => {
      clearWork()
      keepToken(queries, session.id, session.token)
      onCreated(session)
      await queries.invalidateQueries({ queryKey: ['delegated-sessions'] })
    },
  })
  const check = useMutation({
    mutationFn: (policy: Policy) => api.delegatedSessions.validate(policy),
    onMutate: () => setAttempt(null),
    onError: (error) => setAttempt({ body, error, isCheck: true }),
  })
  const isChecked = check.isSuccess && JSON.stringify(check.variables) === JSON.stringify(body.policy)
  // The editor reports a policy and whether its JSON is valid in one go.
  const change = (policy: Draft['policy']) => setWork({ draft: { ...draft, policy }, preset: null, broken: null })
  const setBroken = (next: Broken) => setWork({ ...work, broken: next })
  const choose = (chosen: Preset) => {
    setChoices(choices + 1)
    setWork({ draft: { ...draft, policy: chosen.policy(issuer) }, preset: chosen.id, broken: null })
  }
  return (
    <ProblemsProvider value={problemsOf(attempt, body)}>
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
        <div className="flex min-w-0 flex-col gap-5">
          <Presets chosen={preset} onChoose={choose} />
          <PolicyEditor
            key={choices}
            policy={draft.policy}
            issuer={issuer}
            onChange={change}
            broken={broken}
            onBroken={setBroken}
          />
          <LimitsCard draft={draft} ownKey={ownKey} onChange={setDraft} />
        </div>
        <div className="lg:sticky lg:top-20">
          <Summary policy={body.policy} isBroken={broken !== null} attempt={attempt}>
            <Button
              tone="primary"
              busy={create.isPending}
              disabled={broken !== null || wallet.status === 'frozen'}
              onClick={() => create.mutate()}
            >
              Create session
            </Button>
            {allows(holder, 'delegated_sessions:read') ? (
              <Button busy={check.isPending} disabled={broken !== null} onClick={() => check.mutate(body.policy)}>
                Check policy
              </Button>
            ) : null}
            {isChecked ? (
              <p role="status" className="text-sm text-good">
                The policy is valid.
              </p>
            ) : null}
          </Summary>
        </div>
      </div>
    </ProblemsProvider>
  )
}

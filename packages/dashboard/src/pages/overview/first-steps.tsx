import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleCheck, CircleDashed } from 'lucide-react'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { curl } from '../../components/layout/states.tsx'
import { CodeBlock } from '../../components/records/copy.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'

interface Step {
  title: string
  text: string
  to: string
  command: string
  scope: string
  count: () => Promise<number>
}

const ONE = { pageSize: 1 }

function stepsOf(publicUrl: string): Step[] {
  return [
    {
      title: 'Subscribe to events',
      text: 'Register a webhook, or forward events to your machine.',
      to: '/webhooks',
      command: 'npm run halfkey -- listen --forward-to http://127.0.0.1:3000/hook',
      scope: 'webhooks:read',
      count: async () => (await api.webhooks.list(ONE)).total,
    },
    {
      title: 'Create a user',
      text: 'Use the API or the hosted sign-in page.',
      to: '/users',
      command: curl(publicUrl, 'POST', '/users', { email: 'ada@example.com' }),
      scope: 'users:read',
      count: async () => (await api.users.list(ONE)).total,
    },
    {
      title: 'Create a wallet and an agent with a spending limit',
      text: 'The quickstart creates both. The agent can spend at most 10 and do nothing else.',
      to: '/delegated-sessions',
      command: 'npm run quickstart',
      scope: 'delegated_sessions:read',
      count: async () => (await api.delegatedSessions.list(ONE)).total,
    },
  ]
}

/** The steps of this session, and which of them are done; undefined while that is not known. */
export function useFirstSteps() {
  const { session } = useSession()
  const stored = `halfkey.first-steps.${session.tenant.id}`
  const [away, setAway] = useState(() => localStorage.getItem(stored) !== null)
  const steps = stepsOf(session.publicUrl).filter(({ scope }) => allows(session, scope))
  const { data: done, isLoading } = useQuery({
    queryKey: ['first-steps', session.tenant.id],
    queryFn: async () => Promise.all(steps.map(async ({ count }) => (await count()) > 0)),
    enabled: !away,
    ...LIVE,
  })
  const dismiss = () => {
    localStorage.setItem(stored, 'away')
    setAway(true)
  }
  return { steps, done: away ? undefined : done, isLoading, dismiss }
}

/** The steps that a new tenant has yet to do, with their commands. Hidden once they are done or dismissed. */
export function FirstSteps({ steps, done, dismiss }: ReturnType<typeof useFirstSteps>) {
  if (done === undefined || done.every((each) => each)) return null
  const next = done.indexOf(false)
  return (
    <Card
      title="First steps"
      description="Steps are marked as done automatically."
      actions={
        <Button tone="ghost" onClick={dismiss}>
          Dismiss
        </Button>
      }
    >
      <ol className="flex flex-col gap-4">
        {steps.map((step, index) => (
          <li key={step.title} className="flex gap-3">
            {done[index] ? (
              <CircleCheck aria-label="Done" className="mt-0.5 size-5 flex-none text-good" />
            ) : (
              <CircleDashed aria-label="Not done yet" className="mt-0.5 size-5 flex-none text-soft" />
            )}
            <div className="flex min-w-0 flex-1 flex-col gap-1.5">
              <Link to={step.to} className="font-medium hover:underline">
                {step.title}
              </Link>
              {done[index] ? null : <p className="text-sm text-soft">{step.text}</p>}
              {index === next ? <CodeBlock label={`command: ${step.title}`} text={step.command} /> : null}
            </div>
          </li>
        ))}
      </ol>
    </Card>
  )
}

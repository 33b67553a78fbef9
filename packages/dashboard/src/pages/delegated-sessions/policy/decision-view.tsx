import type { DelegatedSession, Execution, PolicyDecision } from '@halfkey/sdk'
import { CircleCheck, CircleX } from 'lucide-react'
import { Card } from '../../../components/layout/card.tsx'
import { Badge } from '../../../components/records/badge.tsx'
import { Effects } from '../../transactions/effects.tsx'
import { ruleInWords, WINDOWS } from './policy-words.ts'

/** The meaning of rule names that stand for no entry of the policy. */
const NAMED: Record<string, string> = {
  allow: 'No rule of the policy allows this. Everything that no rule allows is denied.',
  spend: 'This would spend an asset that the policy does not list under spend.',
  effects: 'The transaction from the ledger does more than was requested.',
}

function Verdict({ decision, policy }: { decision: PolicyDecision; policy: DelegatedSession['policy'] }) {
  const { allowed, code, rule, message } = decision
  const Icon = allowed ? CircleCheck : CircleX
  const words = ruleInWords(policy, rule) ?? NAMED[rule]
  return (
    <div
      role="status"
      className={`flex gap-3 rounded-card border px-5 py-4 ${allowed ? 'border-good/40 bg-good-wash' : 'border-danger/40 bg-danger-wash'}`}
    >
      <Icon aria-hidden className={`mt-0.5 size-5 flex-none ${allowed ? 'text-good' : 'text-danger'}`} />
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <p className={`font-medium ${allowed ? 'text-good' : 'text-danger'}`}>
          {allowed ? 'This would be executed' : 'This would be refused'}
        </p>
        <p className="mt-1">{message}</p>
        <p className="mt-1 text-sm">
          Decided by <code className="font-mono text-[0.8125rem]">{rule}</code>
          {words === undefined ? null : `: ${words}`}
          {code === null ? null : (
            <>
              {' '}
              The error code would be <code className="font-mono text-[0.8125rem]">{code}</code>.
            </>
          )}
        </p>
      </div>
    </div>
  )
}

function Caps({ before, after }: { before: DelegatedSession['remaining']; after: Execution['remaining'] }) {
  if (after.spend.length === 0 && after.uses === null) return null
  return (
    <Card title="Limits afterwards">
      <ul className="flex flex-col gap-2 text-sm">
        {after.spend.map((cap, index) => {
          const was = before.spend[index]?.remaining ?? null
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: a cap is known by its place in the policy
            <li key={index} className="flex flex-wrap justify-between gap-x-4">
              <span className="text-soft [overflow-wrap:anywhere]">
                {cap.asset.symbol}
                {cap.window === null ? '' : `, ${WINDOWS[cap.window]}`}{' '}
                <code className="font-mono text-xs">spend[{index}]</code>
              </span>
              <span className="font-medium tabular-nums">
                {cap.limit === null
                  ? 'No limit'
                  : was === cap.remaining
                    ? `${cap.remaining}, unchanged`
                    : `${was ?? '?'} → ${cap.remaining}`}
              </span>
            </li>
          )
        })}
        {after.uses === null ? null : (
          <li className="flex flex-wrap justify-between gap-x-4">
            <span className="text-soft">Uses</span>
            <span className="font-medium tabular-nums">
              {before.uses === after.uses ? `${after.uses}, unchanged` : `${before.uses} → ${after.uses}`}
            </span>
          </li>
        )}
      </ul>
    </Card>
  )
}

function Trace({ trace }: { trace: PolicyDecision['trace'] }) {
  return (
    <Card
      title="Rule by rule"
      description="For each command: the rules for its template, and why they match or do not match."
    >
      <ol className="flex flex-col gap-4">
        {trace.map(({ command, action, allowed, rules, rulesLeftOut }) => (
          <li key={command}>
            <p className="flex flex-wrap items-center gap-2 font-medium [overflow-wrap:anywhere]">
              <span className="text-soft tabular-nums">{command}</span> {action}
              <Badge tone={allowed ? 'good' : 'danger'}>{allowed ? 'allowed' : 'denied'}</Badge>
            </p>
            {rules.length === 0 ? (
              <p className="mt-1 text-sm text-soft">The policy has no rule for this template.</p>
            ) : (
              <ul className="mt-1 flex flex-col gap-1 text-sm">
                {rules.map(({ rule, matched, reason }) => (
                  <li key={rule} className="flex flex-wrap gap-x-3">
                    <code className="font-mono text-[0.8125rem]">{rule}</code>
                    <span className={matched ? 'font-medium' : 'text-soft'}>
                      {matched ? 'matches' : 'does not match'}
                    </span>
                    <span className="min-w-0 text-soft [overflow-wrap:anywhere]">{reason}</span>
                  </li>
                ))}
              </ul>
            )}
            {rulesLeftOut === 0 ? null : (
              <p className="mt-1 text-sm text-soft">{rulesLeftOut} more rules are not shown.</p>
            )}
          </li>
        ))}
      </ol>
    </Card>
  )
}

/** The result of a dry run: the decision and its rule, the caps after it, every rule, and the effects. */
export function DecisionView({ execution, session }: { execution: Execution; session: DelegatedSession }) {
  const { decision, effects, remaining } = execution
  if (decision === null) return null
  return (
    <>
      <Verdict decision={decision} policy={session.policy} />
      <Caps before={session.remaining} after={remaining} />
      <Trace trace={decision.trace} />
      {effects.length === 0 ? null : (
        <Card flush title={decision.allowed ? 'What it would do' : 'What it would have done'}>
          <div className="border-t">
            <Effects effects={effects} />
          </div>
        </Card>
      )}
    </>
  )
}

import type { Policy } from '@halfkey/sdk'
import { useState } from 'react'
import { Checkboxes } from '../../../components/controls/checkboxes.tsx'
import { TextArea } from '../../../components/controls/field.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { Tabs } from '../../../components/layout/tabs.tsx'
import { useTemplates } from '../policy/templates.ts'
import { ApprovalList } from './approval-editor.tsx'
import { ConditionList } from './conditions-editor.tsx'
import { cleanPolicy } from './draft.ts'
import { useProblem, useProblems } from './field-problems.ts'
import type { Broken } from './kept-work.ts'
import { readPolicy } from './read-policy.ts'
import { RuleList } from './rule-editor.tsx'
import { SpendList } from './spend-editor.tsx'

/** A complete template id: half-typed ones are not offered. */
const TEMPLATE_ID = /^[A-Za-z][\w.-]*:[A-Za-z][\w.-]*$/

interface FormProps {
  policy: Policy
  issuer: string
  onChange: (policy: Policy) => void
}

function PolicyForm({ policy, issuer, onChange }: FormProps) {
  const templates = useTemplates()
  const named = [...policy.allow, ...(policy.deny ?? [])].map(({ templateId }) => templateId)
  const readable = policy.query?.templateIds ?? []
  const ids = [...templates.map(({ templateId }) => templateId), ...named, ...readable]
  return (
    <>
      <Card title="Allowed actions" description="Everything that no rule allows is denied.">
        <RuleList
          side="allow"
          rules={policy.allow}
          templates={templates}
          onChange={(allow) => onChange({ ...policy, allow })}
        />
      </Card>
      <Card title="Spending limits" description="Assets that are not listed cannot leave the wallet.">
        <SpendList spend={policy.spend ?? []} issuer={issuer} onChange={(spend) => onChange({ ...policy, spend })} />
      </Card>
      <Card title="Conditions" description="When, how often and for whom the session acts. All of them must be met.">
        <ConditionList
          conditions={policy.conditions ?? []}
          issuer={issuer}
          onChange={(conditions) => onChange({ ...policy, conditions })}
        />
      </Card>
      <Card
        title="Questions to the owner"
        description="Transactions that wait until the owner approves them. Only where Halfkey signs for the wallet."
      >
        <ApprovalList
          rules={policy.requireApproval ?? []}
          issuer={issuer}
          onChange={(requireApproval) => onChange({ ...policy, requireApproval })}
        />
      </Card>
      <Card title="Readable contracts" description="Contracts that are visible to the party of the wallet.">
        <Checkboxes
          label="Templates"
          options={[...new Set(ids.filter((id) => TEMPLATE_ID.test(id)))]}
          chosen={readable}
          hint={readable.length === 0 ? 'None selected. The session cannot read contracts.' : undefined}
          error={useProblem('policy.query.templateIds')}
          onChange={(templateIds) => onChange({ ...policy, query: { templateIds } })}
        />
      </Card>
      <Card title="Denied actions" description="A deny rule overrides every allow rule.">
        <RuleList
          side="deny"
          rules={policy.deny ?? []}
          templates={templates}
          onChange={(deny) => onChange({ ...policy, deny })}
        />
      </Card>
    </>
  )
}

function BrokenJson() {
  return (
    <p role="alert" className="rounded-control bg-warn-wash px-4 py-3 text-sm text-warn">
      The JSON is not a valid policy. The form shows the last valid version. A change in the form replaces the JSON.
    </p>
  )
}

/** A policy as a form and as JSON. Both edit the same policy. */
export function PolicyEditor({
  broken,
  onBroken,
  ...form
}: FormProps & {
  /** Text that is not a valid policy, with its error. */
  broken: Broken
  onBroken: (broken: Broken) => void
}) {
  const [tab, setTab] = useState<'form' | 'json'>('form')
  // The text stays as typed: formatting it anew from the policy would move the caret.
  const [typed, setTyped] = useState<string | null>(null)
  const shown = broken?.text ?? typed ?? JSON.stringify(cleanPolicy(form.policy), null, 2)
  const write = (text: string) => {
    const read = readPolicy(text)
    setTyped(text)
    if (typeof read === 'string') onBroken({ text, message: read })
    else form.onChange(read)
  }
  const change = (policy: Policy) => {
    setTyped(null)
    form.onChange(policy)
  }
  const wrong = Object.entries(useProblems())
    .filter(([path]) => path.startsWith('policy'))
    .map(([path, message]) => `${path.slice('policy.'.length) || 'policy'}: ${message}`)
  return (
    <Tabs
      label="Policy editor"
      value={tab}
      onChange={(next) => {
        if (next === 'json' && broken === null) setTyped(null)
        setTab(next)
      }}
      tabs={[
        {
          value: 'form',
          label: 'Form',
          content: (
            <>
              {broken === null ? null : <BrokenJson />}
              <PolicyForm {...form} onChange={change} />
            </>
          ),
        },
        {
          value: 'json',
          label: 'JSON',
          content: (
            <Card>
              <TextArea
                label="Policy as JSON"
                mono
                rows={24}
                value={shown}
                onChange={write}
                error={broken?.message ?? (wrong.length === 0 ? undefined : wrong.join(' '))}
              />
            </Card>
          ),
        },
      ]}
    />
  )
}

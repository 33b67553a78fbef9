import type { PolicyApprovalRule } from '@halfkey/sdk'
import { Plus } from 'lucide-react'
import { Button } from '../../../components/controls/button.tsx'
import { ErrorText, TextField } from '../../../components/controls/field.tsx'
import { SelectField } from '../../../components/controls/select-field.tsx'
import { capital, whoWords } from '../policy/policy-words.ts'
import { AssetFields } from './asset-fields.tsx'
import { useProblems } from './field-problems.ts'
import { replaced, without } from './lists.ts'
import { PartFrame } from './part-frame.tsx'

type Kind = 'above' | 'new'

const KINDS: { value: Kind; label: string }[] = [
  { value: 'above', label: 'Above an amount' },
  { value: 'new', label: 'For a new recipient' },
]

const ruleOf = (kind: Kind, issuer: string): PolicyApprovalRule =>
  kind === 'new' ? { newRecipient: true } : { asset: { issuer, symbol: 'USDX' }, above: '' }

/** Whom a rule asks stays as the policy's JSON says, whatever the form changes. */
const askedBy = ({ approvers }: PolicyApprovalRule) => (approvers === undefined ? {} : { approvers })

function ApprovalRuleEditor({
  rule,
  index,
  issuer,
  onChange,
  onRemove,
}: {
  rule: PolicyApprovalRule
  index: number
  issuer: string
  onChange: (rule: PolicyApprovalRule) => void
  onRemove: () => void
}) {
  const at = `policy.requireApproval.${index}`
  const problems = useProblems()
  const name = `question ${index + 1}`
  return (
    <PartFrame name={name} onRemove={onRemove}>
      <div className="grid items-start gap-4 sm:grid-cols-3">
        <SelectField
          label={`Kind of ${name}`}
          value={rule.newRecipient === true ? 'new' : 'above'}
          options={KINDS}
          onChange={(kind) => onChange({ ...ruleOf(kind, issuer), ...askedBy(rule) })}
        />
        {rule.newRecipient === true ? null : (
          <TextField
            label="Ask above"
            value={rule.above ?? ''}
            onChange={(above) => onChange({ ...rule, above })}
            placeholder="5"
            inputMode="decimal"
            error={problems[`${at}.above`]}
            autoComplete="off"
            className="text-right tabular-nums"
          />
        )}
      </div>
      {rule.asset === undefined ? null : (
        <AssetFields asset={rule.asset} at={`${at}.asset`} onChange={(asset) => onChange({ ...rule, asset })} />
      )}
      {rule.approvers === undefined ? null : (
        <p className="text-sm text-soft">
          {capital(whoWords(rule.approvers))} are asked. To change them, edit the JSON.
        </p>
      )}
      <ErrorText>{problems[at] ?? problems[`${at}.expiresInSeconds`]}</ErrorText>
    </PartFrame>
  )
}

/** What the owner of the wallet is asked for. */
export function ApprovalList({
  rules,
  issuer,
  onChange,
}: {
  rules: readonly PolicyApprovalRule[]
  /** Of a new rule's asset. */
  issuer: string
  onChange: (rules: PolicyApprovalRule[]) => void
}) {
  return (
    <div className="flex flex-col gap-4">
      {rules.map((each, index) => (
        <ApprovalRuleEditor
          // biome-ignore lint/suspicious/noArrayIndexKey: a rule is known by its place, as it is to the server
          key={index}
          rule={each}
          index={index}
          issuer={issuer}
          onChange={(next) => onChange(replaced(rules, index, next))}
          onRemove={() => onChange(without(rules, index))}
        />
      ))}
      <div>
        <Button onClick={() => onChange([...rules, ruleOf('above', issuer)])}>
          <Plus aria-hidden className="size-4" />
          Ask the owner
        </Button>
      </div>
    </div>
  )
}

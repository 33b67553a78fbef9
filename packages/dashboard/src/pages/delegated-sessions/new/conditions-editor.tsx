import type { PolicySessionCondition } from '@halfkey/sdk'
import { Plus } from 'lucide-react'
import { Button } from '../../../components/controls/button.tsx'
import { Checkboxes } from '../../../components/controls/checkboxes.tsx'
import { ErrorText, TextField } from '../../../components/controls/field.tsx'
import { SelectField } from '../../../components/controls/select-field.tsx'
import { SuggestField } from '../../../components/controls/suggest-field.tsx'
import { capital, DAYS, whoWords } from '../policy/policy-words.ts'
import { AssetFields } from './asset-fields.tsx'
import { numberOr } from './draft.ts'
import { useProblem, useProblems } from './field-problems.ts'
import { replaced, without } from './lists.ts'
import { PartFrame } from './part-frame.tsx'

type Hours = NonNullable<PolicySessionCondition['hours']>
type Rate = NonNullable<PolicySessionCondition['rate']>
type Kind = 'hours' | 'count' | 'amount' | 'book'

const KINDS: { value: Kind; label: string }[] = [
  { value: 'hours', label: 'Within hours' },
  { value: 'count', label: 'So many transactions' },
  { value: 'amount', label: 'So much of an asset' },
  { value: 'book', label: 'Address book only' },
]

const OTHERWISE: { value: NonNullable<PolicySessionCondition['otherwise']>; label: string }[] = [
  { value: 'deny', label: 'Deny' },
  { value: 'require_approval', label: 'Ask the owner' },
]

const ZONES = Intl.supportedValuesOf('timeZone')
const HOUR_SECONDS = 3_600

const conditionOf = (kind: Kind, issuer: string): PolicySessionCondition =>
  ({
    hours: {
      hours: { from: '09:00', to: '18:00', timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone },
    },
    count: { rate: { executions: 10, withinSeconds: HOUR_SECONDS } },
    amount: { rate: { asset: { issuer, symbol: 'USDX' }, amount: '', withinSeconds: HOUR_SECONDS } },
    book: { recipients: 'address_book' as const },
  })[kind]

function kindOf({ hours, rate }: PolicySessionCondition): Kind {
  if (hours !== undefined) return 'hours'
  if (rate === undefined) return 'book'
  return rate.executions === undefined ? 'amount' : 'count'
}

function HoursFields({ hours, at, onChange }: { hours: Hours; at: string; onChange: (hours: Hours) => void }) {
  const problems = useProblems()
  return (
    <>
      <Checkboxes
        label="Days"
        options={DAYS}
        chosen={hours.days ?? DAYS}
        error={useProblem(`${at}.days`)}
        onChange={(days) => onChange({ ...hours, days: DAYS.filter((day) => days.includes(day)) })}
      />
      <div className="grid items-start gap-4 sm:grid-cols-3">
        <TextField
          label="From"
          value={hours.from}
          onChange={(from) => onChange({ ...hours, from })}
          placeholder="09:00"
          error={problems[`${at}.from`]}
          autoComplete="off"
        />
        <TextField
          label="To"
          value={hours.to}
          onChange={(to) => onChange({ ...hours, to })}
          placeholder="18:00"
          error={problems[`${at}.to`]}
          autoComplete="off"
        />
        <SuggestField
          label="Time zone"
          value={hours.timeZone}
          onChange={(timeZone) => onChange({ ...hours, timeZone })}
          suggestions={ZONES}
          placeholder="Europe/Zurich"
          error={problems[`${at}.timeZone`]}
        />
      </div>
    </>
  )
}

function RateFields({ rate, at, onChange }: { rate: Rate; at: string; onChange: (rate: Rate) => void }) {
  const problems = useProblems()
  return (
    <>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        {rate.executions === undefined ? (
          <TextField
            label="At most"
            value={rate.amount ?? ''}
            onChange={(amount) => onChange({ ...rate, amount })}
            placeholder="50"
            inputMode="decimal"
            error={problems[`${at}.amount`]}
            autoComplete="off"
            className="text-right tabular-nums"
          />
        ) : (
          <TextField
            label="Transactions"
            value={String(rate.executions)}
            onChange={(text) => onChange({ ...rate, executions: numberOr(text) })}
            inputMode="numeric"
            error={problems[`${at}.executions`]}
            autoComplete="off"
            className="text-right tabular-nums"
          />
        )}
        <TextField
          label="Within (seconds)"
          value={String(rate.withinSeconds)}
          onChange={(text) => onChange({ ...rate, withinSeconds: numberOr(text) })}
          hint="3600 is an hour, 86400 a day."
          inputMode="numeric"
          error={problems[`${at}.withinSeconds`]}
          autoComplete="off"
          className="text-right tabular-nums"
        />
      </div>
      {rate.asset === undefined ? null : (
        <AssetFields asset={rate.asset} at={`${at}.asset`} onChange={(asset) => onChange({ ...rate, asset })} />
      )}
    </>
  )
}

interface EditorProps {
  condition: PolicySessionCondition
  index: number
  /** Of a new rate's asset. */
  issuer: string
  onChange: (condition: PolicySessionCondition) => void
  onRemove: () => void
}

function ConditionEditor({ condition, index, issuer, onChange, onRemove }: EditorProps) {
  const at = `policy.conditions.${index}`
  const name = `session condition ${index + 1}`
  const problems = useProblems()
  const { hours, rate, otherwise = 'deny' } = condition
  const { approvers, ...rest } = condition
  const asked = approvers === undefined ? {} : { approvers }
  return (
    <PartFrame name={name} onRemove={onRemove}>
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <SelectField
          label={`Kind of ${name}`}
          value={kindOf(condition)}
          options={KINDS}
          onChange={(kind) => onChange({ ...conditionOf(kind, issuer), otherwise, ...asked })}
        />
        <SelectField
          label={`Otherwise, for ${name}`}
          value={otherwise}
          options={OTHERWISE}
          onChange={(next) =>
            onChange(next === 'deny' ? { ...rest, otherwise: next } : { ...condition, otherwise: next })
          }
        />
      </div>
      {hours === undefined ? null : (
        <HoursFields hours={hours} at={`${at}.hours`} onChange={(next) => onChange({ ...condition, hours: next })} />
      )}
      {rate === undefined ? null : (
        <RateFields rate={rate} at={`${at}.rate`} onChange={(next) => onChange({ ...condition, rate: next })} />
      )}
      {approvers === undefined ? null : (
        <p className="text-sm text-soft">{capital(whoWords(approvers))} are asked. To change them, edit the JSON.</p>
      )}
      <ErrorText>{problems[at] ?? problems[`${at}.expiresInSeconds`]}</ErrorText>
    </PartFrame>
  )
}

/** When, how often and for whom a session acts. */
export function ConditionList({
  conditions,
  issuer,
  onChange,
}: {
  conditions: readonly PolicySessionCondition[]
  issuer: string
  onChange: (conditions: PolicySessionCondition[]) => void
}) {
  return (
    <div className="flex flex-col gap-4">
      {conditions.map((each, index) => (
        <ConditionEditor
          // biome-ignore lint/suspicious/noArrayIndexKey: a condition is known by its place, as it is to the server
          key={index}
          condition={each}
          index={index}
          issuer={issuer}
          onChange={(next) => onChange(replaced(conditions, index, next))}
          onRemove={() => onChange(without(conditions, index))}
        />
      ))}
      <div>
        <Button onClick={() => onChange([...conditions, conditionOf('hours', issuer)])}>
          <Plus aria-hidden className="size-4" />
          Add a session condition
        </Button>
      </div>
    </div>
  )
}

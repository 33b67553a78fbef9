import type { PolicyCondition } from '@halfkey/sdk'
import { Plus, Trash2 } from 'lucide-react'
import { Button, IconButton } from '../../../components/controls/button.tsx'
import { TextArea, TextField } from '../../../components/controls/field.tsx'
import { Select } from '../../../components/controls/select.tsx'
import { SuggestField } from '../../../components/controls/suggest-field.tsx'
import { OPERATORS } from '../policy/policy-words.ts'
import { useProblem } from './field-problems.ts'
import { replaced, without } from './lists.ts'

const OPS = Object.entries(OPERATORS).map(([value, label]) => ({ value: value as PolicyCondition['op'], label }))

/** The condition with another operator. The typed value is kept. */
function compared({ path, value }: PolicyCondition, op: PolicyCondition['op']): PolicyCondition {
  const isListed = op === 'in' || op === 'not_in'
  if (isListed) return { path, op, value: Array.isArray(value) ? value : [value] }
  return { path, op, value: Array.isArray(value) ? (value[0] ?? '') : value }
}

function Row({
  condition,
  label,
  paths,
  at,
  onChange,
  onRemove,
}: {
  condition: PolicyCondition
  label: string
  paths: readonly string[]
  at: string
  onChange: (condition: PolicyCondition) => void
  onRemove: () => void
}) {
  const { path, op, value } = condition
  const error = useProblem(`${at}.value`)
  return (
    <li className="grid items-start gap-2 rounded-control bg-raised/60 p-3 sm:grid-cols-[minmax(0,1fr)_auto_minmax(0,1.5fr)_auto]">
      <SuggestField
        label={`Argument of ${label}`}
        hideLabel
        placeholder="argument"
        value={path}
        suggestions={paths}
        onChange={(next) => onChange({ ...condition, path: next })}
        error={useProblem(`${at}.path`)}
      />
      <Select
        label={`Comparison of ${label}`}
        value={op}
        options={OPS}
        onChange={(next) => onChange(compared(condition, next))}
        className="min-w-32"
      />
      {Array.isArray(value) ? (
        <TextArea
          label={`Values of ${label}`}
          hideLabel
          mono
          rows={3}
          placeholder="One value per line"
          value={value.join('\n')}
          onChange={(next) => onChange({ ...condition, value: next.split('\n') })}
          error={error}
        />
      ) : (
        <TextField
          label={`Value of ${label}`}
          hideLabel
          placeholder="value"
          value={value}
          onChange={(next) => onChange({ ...condition, value: next })}
          error={error}
          autoComplete="off"
          className="font-mono text-[0.8125rem]"
        />
      )}
      <IconButton label={`Remove ${label}`} onClick={onRemove}>
        <Trash2 aria-hidden className="size-4" />
      </IconButton>
    </li>
  )
}

/** The conditions on a rule's arguments. All of them must hold. */
export function ConditionRows({
  conditions,
  of,
  paths,
  at,
  onChange,
}: {
  conditions: readonly PolicyCondition[]
  /** The name of the rule. */
  of: string
  paths: readonly string[]
  at: string
  onChange: (conditions: PolicyCondition[]) => void
}) {
  return (
    <div className="flex flex-col gap-2">
      <p className="text-sm font-medium">Only if</p>
      {conditions.length === 0 ? <p className="text-sm text-soft">No conditions. All arguments match.</p> : null}
      <ul className="flex flex-col gap-2">
        {conditions.map((condition, index) => (
          <Row
            // biome-ignore lint/suspicious/noArrayIndexKey: a condition is known by its place, as it is to the server
            key={index}
            condition={condition}
            label={`condition ${index + 1}, ${of}`}
            paths={paths}
            at={`${at}.${index}`}
            onChange={(next) => onChange(replaced(conditions, index, next))}
            onRemove={() => onChange(without(conditions, index))}
          />
        ))}
      </ul>
      <div>
        <Button tone="ghost" onClick={() => onChange([...conditions, { path: '', op: 'eq', value: '' }])}>
          <Plus aria-hidden className="size-4" />
          Add a condition
        </Button>
      </div>
    </div>
  )
}

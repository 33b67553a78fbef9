import type { PolicyRule } from '@halfkey/sdk'
import { Plus } from 'lucide-react'
import { Button } from '../../../components/controls/button.tsx'
import { Checkboxes } from '../../../components/controls/checkboxes.tsx'
import { TextField } from '../../../components/controls/field.tsx'
import { Select } from '../../../components/controls/select.tsx'
import { SuggestField } from '../../../components/controls/suggest-field.tsx'
import { actionsOf } from '../policy/policy-words.ts'
import type { KnownTemplate } from '../policy/templates.ts'
import { ConditionRows } from './condition-rows.tsx'
import { useProblem } from './field-problems.ts'
import { replaced, without } from './lists.ts'
import { PartFrame } from './part-frame.tsx'

const ACTIONS = [
  { value: 'exercise', label: 'Exercise choices' },
  { value: 'create', label: 'Create contracts' },
  { value: 'both', label: 'Both' },
] as const
type ActionsValue = (typeof ACTIONS)[number]['value']

function actionsValue(rule: PolicyRule): ActionsValue {
  const actions = actionsOf(rule)
  return actions.length > 1 ? 'both' : (actions[0] ?? 'exercise')
}

/** The rule with other actions. Only exercises have choices. */
function acting(rule: PolicyRule, value: ActionsValue): PolicyRule {
  const { choices, ...rest } = rule
  if (value === 'create') return { ...rest, actions: ['create'] }
  return { ...rule, actions: value === 'both' ? ['create', 'exercise'] : ['exercise'] }
}

function withChoices(rule: PolicyRule, chosen: string[]): PolicyRule {
  const { choices, ...rest } = rule
  // State the actions: a rule without choices and actions would allow more than exercises.
  const same = { ...rest, actions: actionsOf(rule) }
  return chosen.length === 0 ? same : { ...same, choices: chosen }
}

/** The names of the arguments that a rule's conditions can test. */
function pathsOf(rule: PolicyRule, template: KnownTemplate | undefined): string[] {
  if (template === undefined) return []
  const actions = actionsOf(rule)
  const choices = rule.choices?.length ? rule.choices : Object.keys(template.choices)
  return [
    ...new Set([
      ...(actions.includes('create') ? Object.keys(template.fields) : []),
      ...(actions.includes('exercise') ? choices.flatMap((name) => Object.keys(template.choices[name] ?? {})) : []),
    ]),
  ]
}

interface RuleProps {
  rule: PolicyRule
  name: string
  at: string
  templates: readonly KnownTemplate[]
  onChange: (rule: PolicyRule) => void
}

function Choices({ rule, at, templates, onChange }: RuleProps) {
  const offered = Object.keys(templates.find(({ templateId }) => templateId === rule.templateId)?.choices ?? {})
  const chosen = rule.choices ?? []
  const error = useProblem(`${at}.choices`)
  const hint = chosen.length === 0 ? 'None selected. The rule applies to all choices.' : undefined
  if (offered.length === 0)
    return (
      <TextField
        label="Choices"
        value={chosen.join(' ')}
        onChange={(text) =>
          onChange(
            withChoices(
              rule,
              text.split(/[\s,]+/).filter((each) => each !== ''),
            ),
          )
        }
        placeholder="Transfer Split"
        hint={hint ?? 'Separate choices with spaces.'}
        error={error}
        autoComplete="off"
      />
    )
  return (
    <Checkboxes
      label="Choices"
      hint={hint}
      error={error}
      options={[...new Set([...offered, ...chosen])]}
      chosen={chosen}
      onChange={(next) => onChange(withChoices(rule, next))}
    />
  )
}

function RuleEditor(props: RuleProps & { onRemove: () => void }) {
  const { rule, name, at, templates, onChange, onRemove } = props
  const template = templates.find(({ templateId }) => templateId === rule.templateId)
  const exercises = actionsOf(rule).includes('exercise')
  return (
    <PartFrame name={name} onRemove={onRemove}>
      <div className="grid gap-4 sm:grid-cols-2">
        <SuggestField
          label="Template"
          value={rule.templateId}
          suggestions={templates.map(({ templateId }) => templateId)}
          onChange={(templateId) => onChange({ ...rule, templateId })}
          placeholder="Token:Holding"
          error={useProblem(`${at}.templateId`)}
        />
        <div className="flex min-w-0 flex-col gap-1.5">
          <span aria-hidden className="text-sm font-medium">
            Actions
          </span>
          <Select
            label={`Actions of ${name}`}
            value={actionsValue(rule)}
            options={ACTIONS}
            onChange={(value) => onChange(acting(rule, value))}
            className="min-h-10.5"
          />
        </div>
      </div>
      {exercises ? <Choices {...props} /> : null}
      <ConditionRows
        conditions={rule.where ?? []}
        of={name}
        paths={pathsOf(rule, template)}
        at={`${at}.where`}
        onChange={(where) => onChange({ ...rule, where })}
      />
    </PartFrame>
  )
}

/** The rules of one side of a policy. */
export function RuleList({
  side,
  rules,
  templates,
  onChange,
}: {
  side: 'allow' | 'deny'
  rules: readonly PolicyRule[]
  templates: readonly KnownTemplate[]
  onChange: (rules: PolicyRule[]) => void
}) {
  return (
    <div className="flex flex-col gap-4">
      {rules.map((rule, index) => (
        <RuleEditor
          // biome-ignore lint/suspicious/noArrayIndexKey: a rule is known by its place, as it is to the server
          key={index}
          rule={rule}
          name={`${side} rule ${index + 1}`}
          at={`policy.${side}.${index}`}
          templates={templates}
          onChange={(next) => onChange(replaced(rules, index, next))}
          onRemove={() => onChange(without(rules, index))}
        />
      ))}
      <div>
        <Button onClick={() => onChange([...rules, { templateId: '', actions: ['exercise'] }])}>
          <Plus aria-hidden className="size-4" />
          {side === 'allow' ? 'Add an allow rule' : 'Add a deny rule'}
        </Button>
      </div>
    </div>
  )
}

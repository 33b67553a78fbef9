import type { Command, Contract, DelegatedSession, PolicyRule } from '@halfkey/sdk'
import { actionsOf } from '../policy/policy-words.ts'
import type { KnownTemplate } from '../policy/templates.ts'

/** The receiver in examples: a party that nobody has. */
const EXAMPLE_PARTY = `bob::1220${'b0'.repeat(32)}`
const EXAMPLES_MAX = 6

/** Example commands. */
export interface Example {
  label: string
  commands: Command[]
}

/** A value for an argument that meets the rule's conditions; if they do not name it, any value of its type. */
function valueFor(name: string, type: string, rule: PolicyRule, held: Record<string, unknown>) {
  const named = (rule.where ?? []).find(({ path, op }) => path === name && ['eq', 'in', 'lte', 'gte'].includes(op))
  if (named !== undefined) return Array.isArray(named.value) ? (named.value[0] ?? '') : named.value
  if (type === 'amount') return Number(held.amount ?? 1) < 1 ? String(held.amount) : '1'
  if (type === 'party') return EXAMPLE_PARTY
  if (type === 'parties' || type === 'contract_ids') return []
  return 'Example'
}

function exercised(rule: PolicyRule, template: KnownTemplate, contract: Contract): Example[] {
  return Object.entries(template.choices)
    .filter(([choice]) => rule.choices === undefined || rule.choices.includes(choice))
    .map(([choice, types]) => {
      const given = Object.entries(types).map(([name, type]) => [name, valueFor(name, type, rule, contract.arguments)])
      const { templateId } = template
      return {
        label: `${choice} on ${templateId}`,
        commands: [
          { exercise: { templateId, contractId: contract.contractId, choice, arguments: Object.fromEntries(given) } },
        ],
      }
    })
}

function created(rule: PolicyRule, template: KnownTemplate, party: string): Example {
  const given = Object.entries(template.fields).map(([name, type]) => [
    name,
    type === 'party' ? party : valueFor(name, type, rule, {}),
  ])
  const { templateId } = template
  return { label: `Create ${templateId}`, commands: [{ create: { templateId, arguments: Object.fromEntries(given) } }] }
}

/** Example commands for the policy's rules, with the wallet's known contracts. */
export function examplesFor(
  { policy }: Pick<DelegatedSession, 'policy'>,
  templates: readonly KnownTemplate[],
  contracts: readonly Contract[],
  party: string,
): Example[] {
  const found = new Map<string, Example>()
  for (const rule of policy.allow) {
    const template = templates.find(({ templateId }) => templateId === rule.templateId)
    if (template === undefined) continue
    const contract = contracts.find(({ templateId }) => templateId === rule.templateId)
    const actions = actionsOf(rule)
    const all = [
      ...(actions.includes('exercise') && contract !== undefined ? exercised(rule, template, contract) : []),
      ...(actions.includes('create') ? [created(rule, template, party)] : []),
    ]
    for (const example of all) if (!found.has(example.label)) found.set(example.label, example)
  }
  return [...found.values()].slice(0, EXAMPLES_MAX)
}

/** The example that is shown before the wallet's contracts are known. */
export const BLANK: Command[] = [
  {
    exercise: {
      templateId: 'Token:Holding',
      contractId: '…',
      choice: 'Transfer',
      arguments: { receiver: EXAMPLE_PARTY, amount: '1' },
    },
  },
]

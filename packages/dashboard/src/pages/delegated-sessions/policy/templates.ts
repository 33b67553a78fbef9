import type { Template } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { allows, api } from '../../../api.ts'
import { useSession } from '../../../shell/session-context.ts'

/** A template as the editor needs it: its fields and choices, each argument with its type. */
export interface KnownTemplate {
  templateId: string
  fields: Record<string, string>
  choices: Record<string, Record<string, string>>
}

const giving = { receiver: 'party', amount: 'amount' }

/** The embedded ledger's own templates, which `GET /templates` does not list. */
const BUILT_IN: readonly KnownTemplate[] = [
  {
    templateId: 'Token:Holding',
    fields: { issuer: 'party', owner: 'party', symbol: 'symbol', amount: 'amount' },
    choices: { Transfer: giving, Offer: giving, Split: { amount: 'amount' }, Merge: { contractIds: 'contract_ids' } },
  },
  {
    templateId: 'Token:TransferOffer',
    fields: { issuer: 'party', owner: 'party', receiver: 'party', symbol: 'symbol', amount: 'amount' },
    choices: { Accept: {}, Reject: {}, Withdraw: {} },
  },
  { templateId: 'Note:Note', fields: { author: 'party', text: 'text', readers: 'parties' }, choices: { Archive: {} } },
]

const TEMPLATES_MAX = 100

const typesOf = (fields: Template['fields'] | undefined) =>
  Object.fromEntries(Object.entries(fields ?? {}).map(([name, { type }]) => [name, type]))

function known({ templateId, fields, choices }: Template): KnownTemplate {
  return {
    templateId,
    fields: typesOf(fields),
    choices: Object.fromEntries(Object.entries(choices).map(([name, choice]) => [name, typesOf(choice.arguments)])),
  }
}

/** The templates to offer: the built-in ones and the first hundred of the tenant's own. */
export function useTemplates(): readonly KnownTemplate[] {
  const { session } = useSession()
  const { data } = useQuery({
    queryKey: ['templates'],
    queryFn: async ({ signal }) => (await api.templates.list({ pageSize: TEMPLATES_MAX }, { signal })).data.map(known),
    enabled: allows(session, 'wallets:read'),
    staleTime: 30_000,
  })
  return data === undefined ? BUILT_IN : [...BUILT_IN, ...data]
}

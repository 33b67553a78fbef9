import type { CustomDomain } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Form } from '../../components/form/form.tsx'
import type { FormField } from '../../components/form/form-field.ts'
import { Card } from '../../components/layout/card.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useAppField } from '../../components/records/use-apps.ts'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'

const STATUSES = ['pending', 'verified', 'failed'] as const

const columns: Column<CustomDomain>[] = [
  {
    id: 'domain',
    header: 'Domain',
    cell: ({ row }) => (
      <RecordLink id={row.original.id} className="block truncate font-medium">
        {row.original.domain}
      </RecordLink>
    ),
  },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  {
    id: 'checked',
    header: 'Last checked',
    cell: ({ row }) => <RelativeTime at={row.original.lastCheckedAt} none="never" />,
  },
  { id: 'created', header: 'Registered', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

const SORTABLE = { domain: 'domain', created: 'createdAt' } as const
const PHONE = { side: 'status', detail: 'checked', when: 'created' }

const DOMAIN: FormField<{ domain: string; appId: string }> = {
  name: 'domain',
  label: 'Domain',
  required: 'Enter a domain, for example login.example.com.',
  input: { placeholder: 'login.example.com', spellCheck: false },
}

function RegisterDialog({ onClose }: { onClose: () => void }) {
  const { session } = useSession()
  const client = useQueryClient()
  const navigate = useNavigate()
  const appField = useAppField()
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Register a domain"
      description="Users sign in and use their passkeys on your own domain."
    >
      <Form
        fields={[DOMAIN, ...appField]}
        values={{ domain: '', appId: session.appId ?? session.defaultAppId }}
        action="Register"
        onCancel={onClose}
        onSubmit={async ({ domain, appId }) => {
          const made = await api.customDomains.create({ domain: domain.trim(), appId })
          await client.invalidateQueries({ queryKey: ['custom-domains'] })
          await navigate({ to: '/custom-domains/$domainId', params: { domainId: made.id } as never })
        }}
      />
    </Dialog>
  )
}

/** The tenant's custom domains. */
export function CustomDomainsPage() {
  const { values, page, set } = useFilters()
  const { session } = useSession()
  const status = STATUSES.find((each) => each === values.status)
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['custom-domains', status, sort, page],
    queryFn: async ({ signal }) => await api.customDomains.list({ page, status, sort }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const register = (
    <Button tone="primary" onClick={() => set({ register: '1' })}>
      Register a domain
    </Button>
  )
  const mayWrite = allows(session, 'custom_domains:write')
  const empty =
    status === undefined ? (
      <EmptyState
        title="No domains yet"
        command={curl(session.publicUrl, 'POST', '/custom-domains', { domain: 'login.example.com' })}
      >
        A verified domain is an allowed origin of its app and can use the passkeys of the app.
      </EmptyState>
    ) : (
      <NoMatches names={['status']} what="domains" />
    )
  return (
    <Page
      title="Custom domains"
      description="Your own host names for sign-in and passkeys."
      actions={mayWrite ? register : undefined}
    >
      <Card flush>
        <Filters>
          <FilterSelect name="status" label="Status" options={STATUSES} />
        </Filters>
        <DataTable
          label="Custom domains"
          query={query}
          columns={columns}
          empty={empty}
          phone={PHONE}
          sortable={SORTABLE}
        />
      </Card>
      {values.register === undefined ? null : <RegisterDialog onClose={() => set({ register: '' })} />}
    </Page>
  )
}

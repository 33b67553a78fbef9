import { type CustomDomain, isHalfkeyError } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { messageOf } from '../../error-words.ts'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { Plan } from './plan.tsx'

function DnsRecord({
  title,
  text,
  record,
}: {
  title: string
  text: string
  record: CustomDomain['target'] | CustomDomain['verification']
}) {
  return (
    <div className="flex min-w-0 flex-col gap-3 rounded-control border p-4">
      <div>
        <h3 className="font-medium">{title}</h3>
        <p className="text-sm text-soft">{text}</p>
      </div>
      <dl className="grid min-w-0 gap-2 text-sm">
        <Detail label="Type">{record.type}</Detail>
        <IdDetail label="Name" id={record.name} what={`name of the ${record.type} record`} />
        <IdDetail label="Value" id={record.value} what={`value of the ${record.type} record`} />
      </dl>
    </div>
  )
}

/** The result of the last DNS check. */
function Verdict({ error }: { error: unknown }) {
  const [detail] = isHalfkeyError(error) ? error.details : []
  const observed = Array.isArray(detail?.observed) ? (detail.observed as unknown[]).map(String) : []
  return (
    <div role="alert" className="flex flex-col gap-2 rounded-control bg-warn-wash px-4 py-3 text-sm text-warn">
      <p>{messageOf(error)}</p>
      {observed.length === 0 ? null : <p className="[overflow-wrap:anywhere]">Found: {observed.join(', ')}</p>}
    </div>
  )
}

function Check({ domain }: { domain: CustomDomain }) {
  const client = useQueryClient()
  const toast = useToast()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const check = async () => {
    setBusy(true)
    setError(null)
    try {
      await api.customDomains.verify(domain.domain)
      toast.done('The domain is verified')
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
      await client.invalidateQueries({ queryKey: ['custom-domains'] })
    }
  }
  return (
    <>
      <div className="flex flex-wrap items-center gap-3">
        <Button tone={domain.status === 'verified' ? 'secondary' : 'primary'} busy={busy} onClick={() => void check()}>
          {busy ? 'Checking DNS' : 'Check now'}
        </Button>
        <p className="text-sm text-soft">
          Last checked: <RelativeTime at={domain.lastCheckedAt} none="never" />. Halfkey also checks automatically.
        </p>
      </div>
      {error === null ? null : <Verdict error={error} />}
    </>
  )
}

function Content({ domain }: { domain: CustomDomain }) {
  const { session } = useSession()
  const mayWrite = allows(session, 'custom_domains:write')
  return (
    <>
      <Card>
        <Details>
          <Detail label="Status">
            <StatusBadge status={domain.status} />
          </Detail>
          <Detail label="App">
            <RecordLink id={domain.appId} />
          </Detail>
          <TimeDetail label="Registered" at={domain.createdAt} />
          {domain.missingSince === null ? null : <TimeDetail label="Record missing since" at={domain.missingSince} />}
        </Details>
      </Card>
      <Card
        title="DNS records"
        description="Add both records at your DNS provider. The first proves that you own the domain."
      >
        <div className="flex flex-col gap-4">
          <div className="grid gap-4 md:grid-cols-2">
            <DnsRecord
              title="Verification"
              text="Keep this record. Halfkey checks it every day."
              record={domain.verification}
            />
            <DnsRecord title="Routing" text="Needed if Halfkey serves pages on this domain." record={domain.target} />
          </div>
          {mayWrite ? <Check domain={domain} /> : null}
        </div>
      </Card>
      <Plan domainId={domain.id} />
    </>
  )
}

function Remove({ domain: { id, domain } }: { domain: CustomDomain }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const remove = async () => {
    await api.customDomains.remove(domain)
    client.removeQueries({ queryKey: ['custom-domains', id] })
    await navigate({ to: '/custom-domains' })
  }
  return (
    <ConfirmButton label="Remove" title={`Remove ${domain}?`} action="Remove" onConfirm={remove}>
      <p>Sign-in on this domain stops immediately, and the passkeys of the app no longer work there.</p>
      <p>To register it again, you need a new DNS record.</p>
    </ConfirmButton>
  )
}

/** One domain: its DNS records, their state, and the steps to use passkeys under it. */
export function CustomDomainPage() {
  const { domainId } = useParams({ strict: false }) as { domainId: string }
  const { session } = useSession()
  const query = useQuery({
    queryKey: ['custom-domains', domainId],
    queryFn: ({ signal }) => api.customDomains.get(domainId, { signal }),
    ...LIVE,
  })
  const domain = query.data
  return (
    <Page
      title={domain?.domain ?? 'Custom domain'}
      back={{ to: '/custom-domains', label: 'Custom domains' }}
      actions={domain !== undefined && allows(session, 'custom_domains:write') ? <Remove domain={domain} /> : undefined}
    >
      <Loaded query={query}>{(loaded) => <Content domain={loaded} />}</Loaded>
    </Page>
  )
}

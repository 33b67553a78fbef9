import type { Usage } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { ProgressBar } from '../../components/layout/progress-bar.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { TimeDetail } from '../../components/records/record-details.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { messageOf } from '../../error-words.ts'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { METER_NAMES } from './meter-names.ts'

const PLANS = [
  { plan: 'pro', label: 'Switch to Pro' },
  { plan: 'scale', label: 'Switch to Scale' },
]

const NOT_CONFIGURED =
  'No payment processor is configured on this server, so there are no limits and nothing to pay. To sell plans, the operator sets HALFKEY_STRIPE_SECRET_KEY and HALFKEY_STRIPE_WEBHOOK_SECRET.'

function Meters({ usage }: { usage: Usage }) {
  return (
    <Card title="Usage in this period" description="Updated within a few seconds">
      <ul className="flex flex-col gap-4">
        {usage.meters.map(({ key, used, limit }) => (
          <li key={key}>
            {limit === null ? (
              <p className="flex justify-between gap-4 text-sm">
                <span>{METER_NAMES[key]}</span>
                <span className="text-soft tabular-nums">{used.toLocaleString('en')}, no limit</span>
              </p>
            ) : (
              <ProgressBar label={METER_NAMES[key]} value={Math.min(used, limit)} max={limit} />
            )}
            {limit !== null && used > limit ? (
              <p className="mt-1 text-sm text-danger">
                {used.toLocaleString('en')} used, {(used - limit).toLocaleString('en')} over the limit of the plan.
              </p>
            ) : null}
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Plan({ usage }: { usage: Usage }) {
  const { session } = useSession()
  const [busy, setBusy] = useState('')
  const [refusal, setRefusal] = useState<string | null>(null)
  // Without a payment processor every tenant has this plan.
  const hasProcessor = usage.plan !== 'self_hosted'
  const here = `${session.publicUrl}/dashboard/billing`
  const leaveTo = async (what: string, page: () => Promise<{ url: string }>) => {
    setBusy(what)
    setRefusal(null)
    try {
      const { url } = await page()
      location.assign(url)
    } catch (error) {
      setRefusal(messageOf(error))
      setBusy('')
    }
  }
  const buttons = (
    <>
      {PLANS.filter(({ plan }) => plan !== usage.plan).map(({ plan, label }) => (
        <Button
          key={plan}
          busy={busy === plan}
          disabled={!hasProcessor}
          aria-describedby={hasProcessor ? undefined : 'no-processor'}
          onClick={() =>
            void leaveTo(plan, () =>
              api.billing.checkout({ plan, successUrl: `${here}?paid=${plan}`, cancelUrl: `${here}?cancelled=1` }),
            )
          }
        >
          {label}
        </Button>
      ))}
      <Button
        busy={busy === 'portal'}
        disabled={!hasProcessor}
        aria-describedby={hasProcessor ? undefined : 'no-processor'}
        onClick={() => void leaveTo('portal', () => api.billing.portal({ returnUrl: here }))}
      >
        Manage billing
      </Button>
    </>
  )
  return (
    <Card title="Plan" actions={allows(session, 'billing:write') ? buttons : undefined}>
      <Details>
        <Detail label="Current plan">
          <Badge tone="accent">{usage.plan.replaceAll('_', ' ')}</Badge>
        </Detail>
        <TimeDetail label="Period start" at={usage.periodStart} />
        <TimeDetail label="Period end" at={usage.periodEnd} />
      </Details>
      {hasProcessor ? null : (
        <p id="no-processor" className="mt-4 max-w-3xl rounded-control bg-raised px-4 py-3 text-sm">
          {NOT_CONFIGURED}
        </p>
      )}
      {refusal === null ? null : (
        <p role="alert" className="mt-4 rounded-control bg-raised px-4 py-3 text-sm">
          {refusal}
        </p>
      )}
    </Card>
  )
}

/** The plan, its limits and the usage. */
export function BillingPage() {
  const { values } = useFilters()
  const query = useQuery({ queryKey: ['usage'], queryFn: ({ signal }) => api.billing.usage({ signal }), ...LIVE })
  return (
    <Page title="Billing and usage" description="The usage of this tenant and the limits of its plan.">
      {values.paid === undefined ? null : (
        <p role="status" className="rounded-control bg-good-wash px-4 py-3 text-sm text-good">
          Thank you. Your plan changes when the payment processor confirms the payment, usually within seconds.
        </p>
      )}
      {values.cancelled === undefined ? null : (
        <p role="status" className="rounded-control bg-raised px-4 py-3 text-sm">
          The checkout was cancelled. Nothing was charged.
        </p>
      )}
      <Loaded query={query}>
        {(usage) => (
          <>
            <Plan usage={usage} />
            <Meters usage={usage} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

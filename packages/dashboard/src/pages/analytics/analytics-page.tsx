import type { Analytics } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card, Figure } from '../../components/layout/card.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { DailyChart } from '../../components/records/chart.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { FilterSelect, useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { CHARTS, toCsv } from './series.ts'

const PERIODS = [
  { value: '7d', label: '7 days' },
  { value: '90d', label: '90 days' },
]

type Period = '7d' | '30d' | '90d'

function download(analytics: Analytics): void {
  const url = URL.createObjectURL(new Blob([toCsv(analytics.series)], { type: 'text/csv' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `halfkey-analytics-${analytics.to}-${analytics.period}.csv`
  link.click()
  URL.revokeObjectURL(url)
}

function Totals({ totals }: { totals: Analytics['totals'] }) {
  const figures: [string, number][] = [
    ['Active users', totals.activeUsers],
    ['New users', totals.newUsers],
    [
      'Sign-ins',
      totals.signIns.passkey +
        totals.signIns.messenger +
        totals.signIns.email +
        totals.signIns.exchange +
        totals.signIns.provider +
        totals.signIns.wallet,
    ],
    ['Wallets created', totals.walletsCreated],
    ['Transactions completed', totals.transactionsCompleted],
    ['Transactions failed', totals.transactionsFailed],
    ['Deliveries succeeded', totals.deliveriesSucceeded],
    ['Deliveries failed', totals.deliveriesFailed],
  ]
  return (
    <div className="grid grid-cols-2 gap-4 xl:grid-cols-4">
      {figures.map(([label, value]) => (
        <Figure key={label} label={label} value={value.toLocaleString('en')} />
      ))}
    </div>
  )
}

/** What happened, day by day. */
export function AnalyticsPage() {
  const { values } = useFilters()
  const apps = useAppOptions()
  const period: Period = values.period === '7d' || values.period === '90d' ? values.period : '30d'
  const appId = values.app ?? ''
  const query = useQuery({
    queryKey: ['analytics', period, appId],
    queryFn: ({ signal }) => api.analytics.get({ period, ...(appId === '' ? {} : { appId }) }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const dates = query.data?.series.map(({ date }) => date) ?? []
  return (
    <Page
      title="Analytics"
      description="Days are in UTC and include today. The total counts each active user once."
      actions={
        <>
          <FilterSelect name="period" label="Period" options={PERIODS} all="30 days" />
          {apps.length < 2 ? null : <FilterSelect name="app" label="App" options={apps} />}
          <Button disabled={query.data === undefined} onClick={() => query.data && download(query.data)}>
            <Download aria-hidden className="size-4" />
            CSV
          </Button>
        </>
      }
    >
      <Loaded query={query}>
        {({ totals, series }) => (
          <>
            <Totals totals={totals} />
            <div className="grid gap-5 lg:grid-cols-2">
              {CHARTS.map((chart) => (
                <Card key={chart.title} title={chart.title}>
                  <DailyChart label={chart.title} dates={dates} series={chart.lines(series)} />
                </Card>
              ))}
            </div>
          </>
        )}
      </Loaded>
    </Page>
  )
}

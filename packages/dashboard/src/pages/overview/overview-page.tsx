import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { allows, api } from '../../api.ts'
import { Card, Figure } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { ErrorState, Loading } from '../../components/layout/states.tsx'
import { DailyChart } from '../../components/records/chart.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { CHARTS, type Day, yesterdayInWords } from '../analytics/series.ts'
import { FirstSteps, useFirstSteps } from './first-steps.tsx'
import { Health } from './health.tsx'
import { RecentActs } from './recent-acts.tsx'
import { RecentDenials } from './recent-denials.tsx'

const SHOWN = ['Users', 'Sign-ins', 'Transactions', 'Webhook deliveries']

function Today({ today, yesterday }: { today: Day; yesterday: Day | undefined }) {
  const signIns = (day: Day) =>
    day.signIns.passkey +
    day.signIns.messenger +
    day.signIns.email +
    day.signIns.exchange +
    day.signIns.provider +
    day.signIns.wallet
  const figures: [string, (day: Day) => number][] = [
    ['New users today', (day) => day.newUsers],
    ['Sign-ins today', signIns],
    ['Transactions today', (day) => day.transactionsCompleted],
    ['Deliveries today', (day) => day.deliveriesSucceeded],
  ]
  return (
    <div className="grid grid-cols-2 gap-4 xl:grid-cols-4">
      {figures.map(([label, of]) => (
        <Figure
          key={label}
          label={label}
          value={of(today).toLocaleString('en')}
          note={yesterday === undefined ? undefined : yesterdayInWords(of(yesterday))}
        />
      ))}
    </div>
  )
}

const useFigures = (enabled: boolean) =>
  useQuery({
    queryKey: ['analytics', '30d', ''],
    queryFn: ({ signal }) => api.analytics.get({ period: '30d' }, { signal }),
    placeholderData: keepPreviousData,
    enabled,
    ...LIVE,
  })

function Figures({ query }: { query: ReturnType<typeof useFigures> }) {
  if (query.data === undefined) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />
  const { series } = query.data
  const dates = series.map(({ date }) => date)
  const today = series.at(-1)
  return (
    <>
      {today === undefined ? null : <Today today={today} yesterday={series.at(-2)} />}
      <div className="grid gap-5 lg:grid-cols-2">
        {CHARTS.filter(({ title }) => SHOWN.includes(title)).map((chart) => (
          <Card key={chart.title} title={chart.title} description="The last 30 days, by day (UTC)">
            <DailyChart label={chart.title} dates={dates} series={chart.lines(series)} />
          </Card>
        ))}
      </div>
    </>
  )
}

/** The overview: first steps, today's figures, charts, health, recent audit entries. */
export function OverviewPage() {
  const { session } = useSession()
  const maySeeFigures = allows(session, 'analytics:read')
  const figures = useFigures(maySeeFigures)
  const firstSteps = useFirstSteps()
  const isLoading = figures.isLoading || firstSteps.isLoading
  return (
    <Page
      title="Overview"
      description={`${session.tenant.name} at ${session.publicUrl}`}
      actions={
        maySeeFigures ? (
          <Link to="/analytics" className="text-sm text-accent hover:underline">
            View analytics
          </Link>
        ) : undefined
      }
    >
      {isLoading ? (
        <Loading />
      ) : (
        <>
          <FirstSteps {...firstSteps} />
          {maySeeFigures ? <Figures query={figures} /> : null}
        </>
      )}
      {/* Loads at once. It is shown when what stands above it has its height, so that nothing moves. */}
      <div hidden={isLoading} className="grid items-start gap-5 lg:grid-cols-2">
        <div className="flex min-w-0 flex-col gap-5">
          <Health />
          {allows(session, 'delegated_sessions:read') ? <RecentDenials /> : null}
        </div>
        {allows(session, 'audit:read') ? <RecentActs /> : null}
      </div>
    </Page>
  )
}

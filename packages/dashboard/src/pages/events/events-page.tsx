import { Pause, Play } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { FilterSelect, Filters, useFilters } from '../../components/table/filters.tsx'
import { messageOf } from '../../error-words.ts'
import { useSession } from '../../shell/session-context.ts'
import { typeOptions, useEventTypes } from '../event-types/known-types.ts'
import { familyOf } from '../webhooks/endpoint/events-picker.tsx'
import { EventRow } from './event-row.tsx'
import { type Feed, useFeed } from './feed.ts'

const LAST_DEFAULT = 50
/** The events of a new tenant that nobody has used yet. */
const BEGINNINGS = /^(app|api_key|tenant)\./
const LAST_MORE = ['200', '1000'] as const

/** Event families and types, each family before its types. */
function useTypeOptions(): { value: string; label: string }[] {
  const types = typeOptions(useEventTypes())
  return [...Map.groupBy(types, ({ value }) => familyOf(value))].flatMap(([family, members]) => [
    { value: family, label: family },
    ...members,
  ])
}

/** Whether new events appear by themselves. */
function State({ feed, paused }: { feed: Feed; paused: boolean }) {
  if (paused) return <Badge tone="warn">Paused</Badge>
  if (feed.error !== null) return <Badge tone="danger">Not connected</Badge>
  return <Badge tone="good">Live</Badge>
}

/** Shows how to cause a first event, and how to receive it. */
function FirstSteps({ title }: { title: string }) {
  const { session } = useSession()
  return (
    <EmptyState
      title={title}
      command={[
        '# Create a user. This creates a first event:',
        curl(session.publicUrl, 'POST', '/users', { email: 'ada@example.com' }),
        '',
        '# Forward events to a receiver on your machine:',
        `HALFKEY_URL=${session.publicUrl} npm run halfkey -- listen --forward-to http://localhost:3000/hook`,
      ].join('\n')}
    >
      Events of this tenant appear here as they happen.
    </EmptyState>
  )
}

function NothingMatches() {
  const { set } = useFilters()
  return (
    <EmptyState title="No results" action={<Button onClick={() => set({ type: undefined })}>Clear filters</Button>}>
      There is no stored event of this type. New events appear here.
    </EmptyState>
  )
}

function Events({ feed, filtered, onAgain }: { feed: Feed; filtered: boolean; onAgain: () => void }) {
  if (feed.events === null)
    return feed.error === null ? <Loading /> : <ErrorState error={feed.error} onRetry={onAgain} />
  if (feed.events.length === 0) return filtered ? <NothingMatches /> : <FirstSteps title="No events yet" />
  return (
    <>
      <ol aria-label="Events" className="divide-y border-t">
        {feed.events.map((event) => (
          <EventRow key={event.id} event={event} />
        ))}
      </ol>
      <p className="border-t px-5 py-3 text-sm text-soft tabular-nums">
        {feed.events.length === 1 ? 'One event' : `${feed.events.length} events`}, newest first
      </p>
      {!filtered && feed.events.every(({ type }) => BEGINNINGS.test(type)) ? (
        <div className="border-t">
          <FirstSteps title="No activity in this tenant yet" />
        </div>
      ) : null}
    </>
  )
}

/** All events as they happen, with or without a webhook. */
export function EventsPage() {
  const { values } = useFilters()
  const types = useTypeOptions()
  const [paused, setPaused] = useState(false)
  const last = LAST_MORE.find((each) => each === values.last)
  const feed = useFeed({ type: values.type, last: last === undefined ? LAST_DEFAULT : Number(last) }, paused)
  return (
    <Page title="Events" description="All events of this tenant, in real time and in the format that webhooks receive.">
      <Card flush>
        <Filters>
          <FilterSelect name="type" label="Event" options={types} />
          <FilterSelect
            name="last"
            label="Show"
            all={`last ${LAST_DEFAULT}`}
            options={LAST_MORE.map((count) => ({ value: count, label: `Show: last ${count}` }))}
          />
          <div className="ml-auto flex items-center gap-3">
            <span role="status">
              <State feed={feed} paused={paused} />
            </span>
            <Button onClick={() => setPaused(!paused)}>
              {paused ? <Play aria-hidden className="size-4" /> : <Pause aria-hidden className="size-4" />}
              {paused ? 'Resume' : 'Pause'}
            </Button>
          </div>
        </Filters>
        {feed.error !== null && feed.events !== null ? (
          <p role="alert" className="px-5 pb-3 text-sm text-danger">
            {messageOf(feed.error)}
          </p>
        ) : null}
        <Events feed={feed} filtered={values.type !== undefined} onAgain={feed.again} />
      </Card>
    </Page>
  )
}

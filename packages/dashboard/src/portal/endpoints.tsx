import type { Webhook } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../components/controls/button.tsx'
import { Card } from '../components/layout/card.tsx'
import { Loaded } from '../components/layout/loaded.tsx'
import { EmptyState } from '../components/layout/states.tsx'
import { StatusBadge } from '../components/records/badge.tsx'
import { LIVE } from '../query-client.ts'
import { AddDialog } from './endpoint-form.tsx'
import { type Portal, webhooks } from './portal-api.ts'
import type { View } from './portal-page.tsx'

/** The server allows 20 for each subscriber. */
const ENDPOINTS_MAX = 20

function Row({ webhook, onOpen }: { webhook: Webhook; onOpen: () => void }) {
  return (
    <li>
      <button
        type="button"
        onClick={onOpen}
        className="flex min-h-14 w-full items-center justify-between gap-4 px-5 py-3 text-left hover:bg-raised"
      >
        <span className="min-w-0">
          <span className="block truncate font-medium">{webhook.url}</span>
          <span className="block truncate text-sm text-soft">
            {webhook.description ?? (webhook.events.includes('*') ? 'All events' : webhook.events.join(', '))}
          </span>
        </span>
        <StatusBadge status={webhook.status} />
      </button>
    </li>
  )
}

/** The endpoints of the subscriber. */
export function Endpoints({ portal, show }: { portal: Portal; show: (view: View) => void }) {
  const [adding, setAdding] = useState(false)
  const query = useQuery({
    queryKey: ['webhooks'],
    queryFn: async ({ signal }) => (await webhooks.list({ pageSize: 100 }, { signal })).data,
    ...LIVE,
  })
  return (
    <>
      <Card
        flush
        title="Endpoints"
        actions={
          <Button tone="primary" disabled={(query.data?.length ?? 0) >= ENDPOINTS_MAX} onClick={() => setAdding(true)}>
            <Plus aria-hidden className="size-4" />
            Add endpoint
          </Button>
        }
      >
        <Loaded query={query}>
          {(found) =>
            found.length === 0 ? (
              <EmptyState title="No endpoints yet">Add the URL of your server to receive events.</EmptyState>
            ) : (
              <ul className="divide-y border-t">
                {found.map((webhook) => (
                  <Row
                    key={webhook.id}
                    webhook={webhook}
                    onOpen={() => show({ name: 'endpoint', webhookId: webhook.id })}
                  />
                ))}
              </ul>
            )
          }
        </Loaded>
      </Card>
      <AddDialog portal={portal} open={adding} onClose={() => setAdding(false)} />
    </>
  )
}

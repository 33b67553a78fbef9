import type { Webhook } from '@halfkey/sdk'
import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { LIVE } from '../../query-client.ts'

const HEALTH_MS = 20_000

/** One webhook, live. */
export function useWebhook(webhookId: string): UseQueryResult<Webhook> {
  return useQuery({
    queryKey: ['webhooks', webhookId],
    queryFn: ({ signal }) => api.webhooks.get(webhookId, { signal }),
    ...LIVE,
  })
}

/** How many of a webhook's deliveries are in a state; undefined until that is known. */
export function useDeliveryCount(webhookId: string, status: 'dead_letter' | 'retrying'): number | undefined {
  const { data } = useQuery({
    queryKey: ['webhooks', webhookId, 'count', status],
    queryFn: async ({ signal }) =>
      (await api.webhooks.deliveries.list(webhookId, { status, pageSize: 1 }, { signal })).total,
    refetchInterval: HEALTH_MS,
    refetchIntervalInBackground: false,
  })
  return data
}

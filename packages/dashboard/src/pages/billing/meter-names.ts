import type { Usage } from '@halfkey/sdk'

type Meter = Usage['meters'][number]['key']

/** The name of each meter that the API reports. */
export const METER_NAMES: Record<Meter, string> = {
  users: 'Users',
  transactions: 'Transactions',
  deliveries: 'Webhook deliveries',
  apiRequests: 'API requests',
}

import type { Analytics } from '@halfkey/sdk'
import type { Series } from '../../components/records/chart.tsx'

/** The counters of one day. */
export type Day = Analytics['series'][number]

/** A chart: what it is of, and its lines. */
export interface Chart {
  title: string
  lines(days: Day[]): Series[]
}

const line = (label: string, of: (day: Day) => number, days: Day[], tone?: Series['tone']): Series => ({
  label,
  values: days.map(of),
  ...(tone === undefined ? {} : { tone }),
})

/** All figures, grouped by chart. */
export const CHARTS: readonly Chart[] = [
  {
    title: 'Users',
    lines: (days) => [
      line('Active users', (day) => day.activeUsers, days),
      line('New users', (day) => day.newUsers, days, 'good'),
    ],
  },
  {
    title: 'Sign-ins',
    lines: (days) => [
      line('Passkey sign-ins', (day) => day.signIns.passkey, days),
      line('Messenger sign-ins', (day) => day.signIns.messenger, days, 'good'),
    ],
  },
  {
    title: 'Guests',
    lines: (days) => [
      line('Guests started', (day) => day.guests, days),
      line('Guests converted', (day) => day.guestsConverted, days, 'good'),
    ],
  },
  { title: 'Wallets', lines: (days) => [line('Wallets created', (day) => day.walletsCreated, days)] },
  {
    title: 'Transactions',
    lines: (days) => [
      line('Completed', (day) => day.transactionsCompleted, days, 'good'),
      line('Failed', (day) => day.transactionsFailed, days, 'danger'),
    ],
  },
  {
    title: 'Webhook deliveries',
    lines: (days) => [
      line('Succeeded', (day) => day.deliveriesSucceeded, days, 'good'),
      line('Failed', (day) => day.deliveriesFailed, days, 'danger'),
    ],
  },
  { title: 'API requests', lines: (days) => [line('Requests', (day) => day.apiRequests, days)] },
]

/** Yesterday's figure in words. */
export function yesterdayInWords(count: number): string {
  return count === 0 ? 'None yesterday' : `${count.toLocaleString('en')} yesterday`
}

/** Every figure of every day as comma-separated values (RFC 4180), for spreadsheets. All of it is ours: dates and numbers. */
export function toCsv(days: Day[]): string {
  const flat = days.map(({ signIns, ...day }) => ({
    ...day,
    signInsPasskey: signIns.passkey,
    signInsMessenger: signIns.messenger,
  }))
  const names = Object.keys(flat[0] ?? {}) as (keyof (typeof flat)[number])[]
  return [names.join(','), ...flat.map((day) => names.map((name) => day[name]).join(','))].join('\r\n')
}

import type { Analytics } from '@halfkey/sdk'
import type { Series } from '../../components/records/chart.tsx'

/** The counters of one day. */
export type Day = Analytics['series'][number]

/** A chart: what it is of, and its lines. */
export interface Chart {
  title: string
  lines(days: Day[]): Series[]
}

const line = (
  label: string,
  unit: [one: string, many: string],
  values: number[],
  tone: Series['tone'] = 'accent',
): Series => ({ label, unit: { one: unit[0], many: unit[1] }, values, tone })

/** All figures, grouped by chart. */
export const CHARTS: readonly Chart[] = [
  {
    title: 'Users',
    lines: (days) => [
      line(
        'Active users',
        ['active user', 'active users'],
        days.map((day) => day.activeUsers),
      ),
      line(
        'New users',
        ['new user', 'new users'],
        days.map((day) => day.newUsers),
        'good',
      ),
    ],
  },
  {
    title: 'Sign-ins',
    lines: (days) => [
      line(
        'With a passkey',
        ['sign-in with a passkey', 'sign-ins with a passkey'],
        days.map((day) => day.signIns.passkey),
      ),
      line(
        'With a messenger',
        ['sign-in with a messenger', 'sign-ins with a messenger'],
        days.map((day) => day.signIns.messenger),
        'good',
      ),
      line(
        'With an email code',
        ['sign-in with an email code', 'sign-ins with an email code'],
        days.map((day) => day.signIns.email),
        'danger',
      ),
      line(
        'With your own login',
        ['sign-in with your own login', 'sign-ins with your own login'],
        days.map((day) => day.signIns.exchange),
        'warn',
      ),
      line(
        'With a provider',
        ['sign-in with a provider', 'sign-ins with a provider'],
        days.map((day) => day.signIns.provider),
      ),
      line(
        'With an external wallet',
        ['sign-in with an external wallet', 'sign-ins with an external wallet'],
        days.map((day) => day.signIns.wallet),
      ),
    ],
  },
  {
    title: 'Guests',
    lines: (days) => [
      line(
        'Guests started',
        ['guest started', 'guests started'],
        days.map((day) => day.guests),
      ),
      line(
        'Guests converted',
        ['guest converted', 'guests converted'],
        days.map((day) => day.guestsConverted),
        'good',
      ),
    ],
  },
  {
    title: 'Wallets',
    lines: (days) => [
      line(
        'Wallets created',
        ['wallet created', 'wallets created'],
        days.map((day) => day.walletsCreated),
      ),
    ],
  },
  {
    title: 'Transactions',
    lines: (days) => [
      line(
        'Completed',
        ['transaction completed', 'transactions completed'],
        days.map((day) => day.transactionsCompleted),
        'good',
      ),
      line(
        'Failed',
        ['transaction failed', 'transactions failed'],
        days.map((day) => day.transactionsFailed),
        'danger',
      ),
    ],
  },
  {
    title: 'Webhook deliveries',
    lines: (days) => [
      line(
        'Succeeded',
        ['delivery succeeded', 'deliveries succeeded'],
        days.map((day) => day.deliveriesSucceeded),
        'good',
      ),
      line(
        'Failed',
        ['delivery failed', 'deliveries failed'],
        days.map((day) => day.deliveriesFailed),
        'danger',
      ),
    ],
  },
  {
    title: 'API requests',
    lines: (days) => [
      line(
        'API requests',
        ['API request', 'API requests'],
        days.map((day) => day.apiRequests),
      ),
    ],
  },
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
    signInsEmail: signIns.email,
    signInsExchange: signIns.exchange,
    signInsProvider: signIns.provider,
    signInsWallet: signIns.wallet,
  }))
  const names = Object.keys(flat[0] ?? {}) as (keyof (typeof flat)[number])[]
  return [names.join(','), ...flat.map((day) => names.map((name) => day[name]).join(','))].join('\r\n')
}

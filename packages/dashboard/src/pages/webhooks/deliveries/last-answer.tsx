import type { Delivery, DeliveryAttempt } from '@halfkey/sdk'

/** How an attempt ended, in a word or two: `204`, `503`, `connection refused`. */
export function outcomeOf({ statusCode, error }: Pick<DeliveryAttempt, 'statusCode' | 'error'>): string {
  return statusCode === null ? (error ?? 'no response') : String(statusCode)
}

/** The number of an attempt as people count. In the API the first send is 0. */
export function countOf({ number }: Pick<DeliveryAttempt, 'number'>): number {
  return number + 1
}

/** How many attempts a delivery has had. */
export function attemptsOf({ attempts }: Pick<Delivery, 'attempts'>): number {
  const last = attempts.at(-1)
  return last === undefined ? 0 : countOf(last)
}

/** The last attempt of a delivery, and how long it took. */
export function LastAnswer({ delivery }: { delivery: Delivery }) {
  const last = delivery.attempts.at(-1)
  if (last === undefined) return <span className="text-soft">Not sent yet</span>
  return (
    <span className="flex min-w-0 items-baseline gap-x-2">
      <span title={outcomeOf(last)} className={`truncate ${last.error === null ? '' : 'text-danger'}`}>
        {outcomeOf(last)}
      </span>
      <span className="whitespace-nowrap text-soft tabular-nums">{last.durationMs} ms</span>
    </span>
  )
}

import type { DeliveryAttempt } from '@halfkey/sdk'
import { Badge } from '../../../components/records/badge.tsx'
import { CopyButton } from '../../../components/records/copy.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'
import { countOf, outcomeOf } from './last-answer.tsx'

const NEWLINE = 10
const TAB = 9

function isHidden(code: number): boolean {
  if (code === NEWLINE || code === TAB) return false
  return (
    code < 0x20 ||
    (code >= 0x7f && code < 0xa0) ||
    // Bidirectional controls and zero-width characters.
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2060 && code <= 0x206f) ||
    code === 0xfeff
  )
}

/** The text with invisible characters escaped: control characters (`\x1b`) and direction marks. */
function visible(text: string): string {
  return [...text]
    .map((character) => {
      const code = character.codePointAt(0) ?? 0
      if (!isHidden(code)) return character
      return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
    })
    .join('')
}

/** A receiver's response, always as plain text. */
export function AttemptAnswer({ attempt }: { attempt: DeliveryAttempt }) {
  const { responseSnippet } = attempt
  if (responseSnippet === null || responseSnippet === '')
    return (
      <p className="text-sm text-soft">{attempt.statusCode === null ? 'No response.' : 'The response was empty.'}</p>
    )
  return (
    <figure className="relative min-w-0 rounded-control border bg-code">
      <figcaption className="px-3 pt-2 pr-12 text-xs text-soft">Response of the receiver, first 4 KiB</figcaption>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
        tabIndex={0}
        dir="ltr"
        className="max-h-48 overflow-y-auto p-3 pt-1 pr-12 font-mono text-[0.8125rem] leading-relaxed [overflow-wrap:anywhere] whitespace-pre-wrap"
      >
        <code>{visible(responseSnippet)}</code>
      </pre>
      <div className="absolute top-1.5 right-1.5">
        <CopyButton text={responseSnippet} what="response" />
      </div>
    </figure>
  )
}

function Attempt({ attempt }: { attempt: DeliveryAttempt }) {
  const good = attempt.error === null
  // The status is shown already. Say only what it does not: that redirects are not followed.
  const told = attempt.statusCode === null || attempt.error === `status ${attempt.statusCode}`
  return (
    <li className="relative flex min-w-0 flex-col gap-2 border-l pb-6 pl-6 last:pb-0">
      <span
        aria-hidden
        className={`absolute top-1.5 -left-[0.3125rem] size-2.5 rounded-full ${good ? 'bg-good' : 'bg-danger'}`}
      />
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
        <span className="font-medium">Attempt {countOf(attempt)}</span>
        <Badge tone={good ? 'good' : 'danger'}>{outcomeOf(attempt)}</Badge>
        <span className="text-soft tabular-nums">{attempt.durationMs} ms</span>
        <span className="ml-auto text-soft">
          <RelativeTime at={attempt.at} />
        </span>
      </div>
      {good || told ? null : <p className="text-sm text-danger [overflow-wrap:anywhere]">{attempt.error}</p>}
      <AttemptAnswer attempt={attempt} />
    </li>
  )
}

/** The attempts of a delivery, newest first. */
export function Attempts({ attempts }: { attempts: readonly DeliveryAttempt[] }) {
  if (attempts.length === 0) return <p className="text-sm text-soft">No attempts yet.</p>
  return (
    <ol aria-label="Attempts" className="flex min-w-0 flex-col pl-1.5">
      {attempts.toReversed().map((attempt) => (
        <Attempt key={attempt.number} attempt={attempt} />
      ))}
    </ol>
  )
}

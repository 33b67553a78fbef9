import { isHalfkeyError } from '@halfkey/sdk'
import { CircleAlert, Inbox } from 'lucide-react'
import type { ReactNode } from 'react'
import { messageOf } from '../../error-words.ts'
import { Button } from '../controls/button.tsx'
import { CodeBlock } from '../records/copy.tsx'

/** An empty list: why it is empty, what to do next, and the command that does it. */
export function EmptyState({
  title,
  children,
  command,
  action,
}: {
  title: string
  children?: ReactNode
  /** To paste into a terminal; see `curl`. */
  command?: string
  action?: ReactNode
}) {
  return (
    <div className="mx-auto flex max-w-2xl flex-col items-center gap-3 px-4 py-10 text-center">
      <span className="rounded-full bg-raised p-3">
        <Inbox aria-hidden className="size-5 text-soft" />
      </span>
      <p className="font-medium">{title}</p>
      {children === undefined ? null : <p className="text-sm text-soft">{children}</p>}
      {action}
      {command === undefined ? null : (
        <div className="w-full min-w-0">
          <CodeBlock label="command" text={command} />
        </div>
      )}
    </div>
  )
}

/** A failed request: the server's message, the request id for the logs, and a retry button. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const known = isHalfkeyError(error) ? error : null
  return (
    <div role="alert" className="mx-auto flex max-w-2xl flex-col items-center gap-3 px-4 py-10 text-center">
      <span className="rounded-full bg-danger-wash p-3">
        <CircleAlert aria-hidden className="size-5 text-danger" />
      </span>
      <p className="font-medium">
        {known?.code === 'not_found'
          ? 'This record does not exist.'
          : known?.code === 'insufficient_scope'
            ? known.details.some(({ code }) => code === 'role_not_allowed')
              ? 'Your role does not have access to this page.'
              : 'Your API key does not have access to this page.'
            : 'This could not be loaded.'}
      </p>
      <p className="text-sm text-soft">{messageOf(error)}</p>
      {known?.requestId ? <p className="font-mono text-xs text-soft">Request {known.requestId}</p> : null}
      {onRetry === undefined ? null : <Button onClick={onRetry}>Try again</Button>}
    </div>
  )
}

/** A loading placeholder. */
export function Loading({ label = 'Loading' }: { label?: string }) {
  return (
    <div role="status" className="flex flex-col gap-3 p-5">
      <span className="sr-only">{label}…</span>
      {[80, 60, 70].map((width) => (
        <div key={width} aria-hidden className="h-4 animate-pulse rounded bg-raised" style={{ width: `${width}%` }} />
      ))}
    </div>
  )
}

/** A curl command for a call to this server. `userId`: the user it acts for. */
export function curl(publicUrl: string, method: string, path: string, body?: object, userId?: string): string {
  const parts = [
    `curl -sS${method === 'GET' ? '' : ` -X ${method}`} ${publicUrl}/v1${path}`,
    '-H "x-api-key: $HALFKEY_KEY"',
    ...(userId === undefined ? [] : [`-H 'x-user-id: ${userId}'`]),
    ...(body === undefined
      ? []
      : [`-H 'content-type: application/json' -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`]),
  ]
  // A short command stays on one line. Longer ones are broken so that every line is visible.
  return parts.length === 2 ? parts.join(' ') : parts.join(' \\\n  ')
}

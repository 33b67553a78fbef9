import { Button } from '../../../components/controls/button.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { ProgressBar } from '../../../components/layout/progress-bar.tsx'
import { finishedOf, isRunning, type RetryRun } from './retry-run.ts'

function resultOf(run: RetryRun): string {
  const refused = Object.values(run.refused).reduce((sum, count) => sum + count, 0)
  const again = finishedOf(run) - refused
  return [
    `${again} of ${run.total} sent again`,
    ...(refused === 0 ? [] : [`${refused} refused`]),
    ...(run.cancelled === 0 ? [] : [`${run.cancelled} cancelled`]),
  ].join(', ')
}

/** How far many retries are, and what came of them. */
export function RetryProgress({
  run,
  onCancel,
  onDismiss,
}: {
  run: RetryRun
  onCancel: () => void
  onDismiss: () => void
}) {
  const working = isRunning(run)
  return (
    <Card>
      <section aria-label="Retrying the selected dead letters" className="flex flex-col gap-3">
        {working ? (
          <ProgressBar label="Sending the selected dead letters again" value={finishedOf(run)} max={run.total} />
        ) : (
          <p role="status" className="text-sm font-medium">
            {resultOf(run)}.
          </p>
        )}
        {Object.entries(run.refused).map(([message, count]) => (
          <p key={message} className="text-sm text-danger [overflow-wrap:anywhere]">
            {count === 1 ? message : `${count} times: ${message}`}
          </p>
        ))}
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p className="text-sm text-soft">
            {working
              ? 'Keep this page open. After a reload, the retry continues.'
              : 'Deliveries that fail again return to this list.'}
          </p>
          {working ? <Button onClick={onCancel}>Cancel the rest</Button> : <Button onClick={onDismiss}>Dismiss</Button>}
        </div>
      </section>
    </Card>
  )
}

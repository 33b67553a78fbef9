import type { ApiKey } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useSession } from '../../shell/session-context.ts'

/** Revokes a key after a confirmation that shows its last use. */
export function RevokeKeyDialog({
  apiKey,
  open,
  onOpenChange,
}: {
  apiKey: ApiKey | null
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  const { session } = useSession()
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={onOpenChange}
      title="Revoke this key?"
      action="Revoke key"
      onConfirm={async () => {
        await api.apiKeys.revoke(apiKey?.id ?? '')
        toast.done('Key revoked', apiKey?.name)
        await queries.invalidateQueries({ queryKey: ['api-keys'] })
      }}
    >
      <p>
        Anything that uses <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{apiKey?.name}</bdi> stops
        working immediately. This cannot be undone.
      </p>
      <p>
        Last used: <RelativeTime at={apiKey?.lastUsedAt} none="never" />.
      </p>
      {apiKey !== null && apiKey.id === session.keyId ? (
        <p className="rounded-control bg-warn-wash px-3 py-2 text-warn">
          You are signed in with this key, so you will be signed out.
        </p>
      ) : null}
    </ConfirmDialog>
  )
}

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { type DashboardSession, type OwnPasskey, ownPasskeys } from '../../api.ts'
import { Button, IconButton } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { CopyableId } from '../../components/records/copy.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { hasPasskeys, passkeyMessageOf } from '../../passkeys.ts'
import { useSession } from '../../shell/session-context.ts'
import { LoginCard } from './login-card.tsx'

const KEY = ['own-passkeys']

/** The name that a new passkey gets: the kind of device. */
const deviceName = () => /(iPhone|iPad|Android|Macintosh|Windows|Linux)/.exec(navigator.userAgent)?.[1] ?? 'Passkey'

function AddButton() {
  const queries = useQueryClient()
  const { done, failed } = useToast()
  const add = useMutation({
    mutationFn: () => ownPasskeys.add(deviceName()),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: KEY })
      done('Passkey added', 'You can sign in with it from now on.')
    },
    onError: (error) => failed('The passkey was not added', passkeyMessageOf(error)),
  })
  return (
    <Button tone="primary" busy={add.isPending} disabled={!hasPasskeys()} onClick={() => add.mutate()}>
      <KeyRound aria-hidden className="size-4" />
      Add a passkey
    </Button>
  )
}

function Row({ passkey, onRemove }: { passkey: OwnPasskey; onRemove: () => void }) {
  return (
    <li className="flex items-center justify-between gap-3 py-2">
      <div className="min-w-0 text-sm">
        <p className="truncate font-medium">
          <bdi>{passkey.name}</bdi>
        </p>
        <p className="text-soft">
          Last used: <RelativeTime at={passkey.lastUsedAt} none="never" />
        </p>
      </div>
      <IconButton label={`Remove ${passkey.name}`} onClick={onRemove}>
        <Trash2 aria-hidden className="size-4" />
      </IconButton>
    </li>
  )
}

function Passkeys() {
  const queries = useQueryClient()
  const toast = useToast()
  const [removing, setRemoving] = useState<OwnPasskey | null>(null)
  const query = useQuery({ queryKey: KEY, queryFn: () => ownPasskeys.list() })
  return (
    <Card
      title="Your passkeys"
      description="Sign in with your fingerprint, face or screen lock, without a link. Sensitive actions ask for it again."
      actions={<AddButton />}
    >
      {query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.isPending ? <Loading /> : null}
      {query.data?.length === 0 ? (
        <EmptyState title="No passkeys yet">Without one you need a new link from an owner to sign in again.</EmptyState>
      ) : (
        <ul className="divide-y">
          {query.data?.map((passkey) => (
            <Row key={passkey.id} passkey={passkey} onRemove={() => setRemoving(passkey)} />
          ))}
        </ul>
      )}
      <ConfirmDialog
        open={removing !== null}
        onOpenChange={(open) => (open ? undefined : setRemoving(null))}
        title="Remove this passkey?"
        action="Remove passkey"
        onConfirm={async () => {
          await ownPasskeys.remove(removing?.id ?? '')
          await queries.invalidateQueries({ queryKey: KEY })
          toast.done('Passkey removed')
        }}
      >
        <p>It no longer signs you in. Active sessions continue.</p>
      </ConfirmDialog>
    </Card>
  )
}

function Profile({
  member,
  apps,
}: {
  member: NonNullable<DashboardSession['member']>
  apps: DashboardSession['apps']
}) {
  return (
    <Card>
      <Details>
        <Detail label="Email">
          <bdi className="[overflow-wrap:anywhere]">{member.email}</bdi>
        </Detail>
        <Detail label="Role">{member.role}</Detail>
        <Detail label="Apps">{apps === null ? 'all' : apps.map(({ name }) => name).join(', ')}</Detail>
        <Detail label="Id" wide>
          <CopyableId id={member.id} what="member id" />
        </Detail>
      </Details>
    </Card>
  )
}

/** The account of the member who is signed in. */
export function AccountPage() {
  const { session } = useSession()
  const { member } = session
  if (member === null)
    return (
      <Page title="Your account">
        <EmptyState title="You are not signed in as a member.">Operators and API keys have no account here.</EmptyState>
      </Page>
    )
  return (
    <Page title={member.name}>
      <Profile member={member} apps={session.apps} />
      <Passkeys />
      <LoginCard />
    </Page>
  )
}

import type { Guest } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Form } from '../../components/form/form.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { Detail } from '../../components/layout/details.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { UrlDialog } from '../../components/layout/url-dialog.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { CopyableId } from '../../components/records/copy.tsx'
import { MetadataList } from '../../components/records/metadata-list.tsx'
import { Party } from '../../components/records/party.tsx'
import { AppDetail, IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { useSession } from '../../shell/session-context.ts'
import { givenOf, inputOf, USER_FIELDS } from '../users/user-fields.ts'
import { GuestEnd } from './guest-end.tsx'

function ConvertForm({ guest, onCancel }: { guest: Guest; onCancel: () => void }) {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const toast = useToast()
  return (
    <div className="flex flex-col gap-4">
      <p className="text-sm text-soft">
        Enter an email address or an external id. The user id, party and wallet stay the same.
      </p>
      <Form
        fields={USER_FIELDS}
        values={inputOf()}
        action="Convert to user"
        onCancel={onCancel}
        onSubmit={async (input) => {
          const { user } = await api.guests.convert(guest.id, givenOf(input))
          toast.done('Guest converted', 'The user has the same id, party and wallet.')
          await queries.invalidateQueries({ queryKey: ['guests'] })
          await queries.invalidateQueries({ queryKey: ['users'] })
          await navigate({ to: '/users/$userId', params: { userId: user.id }, search: {} } as never)
        }}
      />
    </div>
  )
}

function Fields({ guest }: { guest: Guest }) {
  return (
    <dl className="grid gap-x-8 gap-y-3 sm:grid-cols-2">
      <Detail label="Status">
        <StatusBadge status={guest.status} />
      </Detail>
      <Detail label="Ends">
        <GuestEnd guest={guest} />
      </Detail>
      <IdDetail label="Guest id" id={guest.id} what="guest id" />
      <Detail label="User id">
        {guest.status === 'converted' ? (
          <RecordLink id={guest.userId} />
        ) : (
          <CopyableId id={guest.userId} what="user id" />
        )}
      </Detail>
      <Detail label="Party">
        <Party id={guest.partyId} />
      </Detail>
      <AppDetail appId={guest.appId} />
      <TimeDetail label="Started" at={guest.createdAt} />
      <TimeDetail label="Changed" at={guest.updatedAt} />
      <Detail label="Metadata" wide>
        <MetadataList metadata={guest.metadata} />
      </Detail>
    </dl>
  )
}

function WalletOf({ guest }: { guest: Guest }) {
  const { session } = useSession()
  const { data } = useQuery({
    queryKey: ['guests', guest.id, 'wallet'],
    queryFn: ({ signal }) => api.users.wallet(guest.userId, { signal }),
    enabled: allows(session, 'wallets:read'),
    retry: false,
  })
  if (data === undefined) return null
  return (
    <RecordLink id={data.id} className="text-sm font-medium">
      Wallet of this guest
    </RecordLink>
  )
}

function Shown({ guest }: { guest: Guest }) {
  const { session } = useSession()
  const [converting, setConverting] = useState(false)
  const queries = useQueryClient()
  const toast = useToast()
  if (converting) return <ConvertForm guest={guest} onCancel={() => setConverting(false)} />
  return (
    <div className="flex flex-col gap-5">
      <Fields guest={guest} />
      <WalletOf guest={guest} />
      {guest.status === 'active' && allows(session, 'guests:write') ? (
        <div className="flex flex-wrap justify-end gap-2">
          <ConfirmButton
            label="End session"
            title="End this guest session?"
            action="End session"
            onConfirm={async () => {
              await api.guests.expire(guest.id)
              await queries.invalidateQueries({ queryKey: ['guests'] })
              toast.done('Guest session ended')
            }}
          >
            <p>
              The guest is signed out immediately and can no longer be converted. Their wallet is frozen permanently.
            </p>
          </ConfirmButton>
          <Button tone="primary" onClick={() => setConverting(true)}>
            Convert to user
          </Button>
        </div>
      ) : null}
    </div>
  )
}

/** The guest session that the URL names, with its actions. */
export function GuestDialog() {
  return (
    <UrlDialog name="guest" title="Guest session" resource="guests" read={(id, options) => api.guests.get(id, options)}>
      {(guest) => <Shown guest={guest} />}
    </UrlDialog>
  )
}

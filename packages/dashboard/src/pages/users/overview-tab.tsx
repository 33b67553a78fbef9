import type { User } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Form } from '../../components/form/form.tsx'
import { metadataChanges, metadataOf } from '../../components/form/metadata-field.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { CopyableId } from '../../components/records/copy.tsx'
import { MetadataList } from '../../components/records/metadata-list.tsx'
import { Party } from '../../components/records/party.tsx'
import { AppDetail, IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { useSession } from '../../shell/session-context.ts'
import { IdentitiesCard } from './identities-card.tsx'
import { RecoveriesCard } from './recoveries-card.tsx'
import { meaningOf, TrustLevelBadge } from './trust-level.tsx'
import { inputOf, USER_FIELDS, type UserInput } from './user-fields.ts'

/** The body of an update: only what changed, null for what was emptied. */
function bodyOf({ metadata, ...changed }: Partial<UserInput>, before: UserInput) {
  return {
    ...Object.fromEntries(Object.entries(changed).map(([name, value]) => [name, value === '' ? null : value])),
    ...(metadata === undefined ? {} : { metadata: metadataChanges(metadataOf(before.metadata), metadataOf(metadata)) }),
  }
}

function EditUserForm({ user, onDone }: { user: User; onDone: () => void }) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <Form
      fields={USER_FIELDS}
      values={inputOf(user)}
      action="Save"
      onCancel={onDone}
      // The form compares with the user as they were when it opened: a change made elsewhere meanwhile is not undone.
      onSubmit={async (_, changed, before) => {
        await api.users.update(user.id, bodyOf(changed, before))
        await queries.invalidateQueries({ queryKey: ['users'] })
        await queries.invalidateQueries({ queryKey: ['user-names', user.id] })
        toast.done('User saved')
        onDone()
      }}
    />
  )
}

function EditUser({ user }: { user: User }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button onClick={() => setOpen(true)}>Edit</Button>
      <Dialog open={open} onOpenChange={setOpen} title="Edit user">
        <EditUserForm user={user} onDone={() => setOpen(false)} />
      </Dialog>
    </>
  )
}

function Text({ value }: { value: string | null }) {
  return value === null ? <span className="text-soft">None</span> : <bdi>{value}</bdi>
}

function Fields({ user }: { user: User }) {
  return (
    <Details>
      <Detail label="Email">
        <Text value={user.email} />{' '}
        {user.email === null ? null : (
          <Badge tone={user.emailVerified ? 'good' : 'neutral'}>
            {user.emailVerified ? 'verified' : 'not verified'}
          </Badge>
        )}
      </Detail>
      <Detail label="Name">
        <Text value={user.name} />
      </Detail>
      <Detail label="External id">
        {user.externalId === null ? <Text value={null} /> : <CopyableId id={user.externalId} what="external id" />}
      </Detail>
      <Detail label="Status">
        <StatusBadge status={user.status} />
      </Detail>
      <Detail label="Trust level">
        <TrustLevelBadge level={user.trustLevel} />
        <span className="block text-sm text-soft">{meaningOf(user.trustLevel)}</span>
      </Detail>
      <Detail label="Two-step verification">{user.mfaEnabled ? 'On' : 'Off'}</Detail>
      <IdDetail label="User id" id={user.id} what="user id" />
      <Detail label="Party">
        <Party id={user.partyId} />
      </Detail>
      <AppDetail appId={user.appId} />
      <TimeDetail label="Last seen" at={user.lastSeenAt} none="Never" />
      <TimeDetail label="Created" at={user.createdAt} />
      <TimeDetail label="Changed" at={user.updatedAt} />
    </Details>
  )
}

/** Every field of a user with the way to change them, and their accounts elsewhere. */
export function OverviewTab({ user }: { user: User }) {
  const { session } = useSession()
  return (
    <>
      <Card title="Profile" actions={allows(session, 'users:write') ? <EditUser user={user} /> : undefined}>
        <Fields user={user} />
      </Card>
      <IdentitiesCard user={user} />
      <RecoveriesCard user={user} />
      <Card title="Metadata">
        <MetadataList metadata={user.metadata} />
      </Card>
    </>
  )
}

import type { Member, MemberWithLink } from '@halfkey/sdk'
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link as LinkIcon, Pencil, Plus, UserMinus } from 'lucide-react'
import { useMemo, useState } from 'react'
import { allows, api, type DashboardSession } from '../../api.ts'
import { Button, IconButton } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmDialog, Dialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useRecordDialog } from '../../components/layout/use-record-dialog.ts'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useApps } from '../../components/records/use-apps.ts'
import { UserText } from '../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { messageOf } from '../../error-words.ts'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { EditDialog, InviteDialog, MadeDialog, reaches } from './member-form.tsx'
import { SignInCard } from './sign-in-card.tsx'

const STATUSES = ['active', 'invited', 'removed'] as const
const ROLES = ['owner', 'admin', 'developer', 'support', 'viewer'] as const
const PHONE = { side: 'status', detail: 'role', when: 'seen', act: 'actions' }

interface Acts {
  session: DashboardSession
  edit: (member: Member) => void
  remove: (member: Member) => void
  link: (member: Member) => void
}

/** Whether the session may make a link: an invitation, or for an active member who lost their way in. */
const mayLink = ({ session }: Acts, { status }: Member) =>
  status === 'invited' || session.via === 'link' || session.member?.role === 'owner'

function RowActions({ member, acts }: { member: Member; acts: Acts }) {
  if (member.status === 'removed' || !reaches(acts.session, member.role)) return null
  return (
    <span className="ml-auto flex justify-end gap-1">
      {mayLink(acts, member) ? (
        <IconButton label={`New link for ${member.name}`} onClick={() => acts.link(member)}>
          <LinkIcon aria-hidden className="size-4" />
        </IconButton>
      ) : null}
      <IconButton label={`Edit ${member.name}`} onClick={() => acts.edit(member)}>
        <Pencil aria-hidden className="size-4" />
      </IconButton>
      <IconButton label={`Remove ${member.name}`} onClick={() => acts.remove(member)}>
        <UserMinus aria-hidden className="size-4" />
      </IconButton>
    </span>
  )
}

function Named({ member, isOwn }: { member: Member; isOwn: boolean }) {
  return (
    <span className="flex min-w-0 items-center gap-x-2">
      <span className="min-w-0">
        <UserText className="font-medium">{member.name}</UserText>
        {member.name === member.email ? null : <UserText className="text-soft">{member.email}</UserText>}
      </span>
      {isOwn ? <Badge tone="accent">you</Badge> : null}
    </span>
  )
}

function Status({ member: { status, invitationDelivery } }: { member: Member }) {
  return invitationDelivery === 'email' ? <Badge>invitation mailed</Badge> : <StatusBadge status={status} />
}

function columnsFor(nameOf: (appId: string) => string, ownId: string | null, acts: Acts | null): Column<Member>[] {
  const actions: Column<Member> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row }) => (acts === null ? null : <RowActions member={row.original} acts={acts} />),
  }
  return [
    {
      id: 'name',
      header: 'Member',
      cell: ({ row }) => <Named member={row.original} isOwn={row.original.id === ownId} />,
    },
    { id: 'role', header: 'Role', cell: ({ row }) => row.original.role },
    {
      id: 'apps',
      header: 'Apps',
      cell: ({ row }) => <UserText>{row.original.appIds?.map(nameOf).join(', ') ?? 'all'}</UserText>,
    },
    {
      id: 'seen',
      header: 'Last sign-in',
      cell: ({ row }) => <RelativeTime at={row.original.lastSignedInAt} none="never" />,
    },
    { id: 'status', header: 'Status', cell: ({ row }) => <Status member={row.original} /> },
    ...(acts === null ? [] : [actions]),
  ]
}

function RemoveDialog({ dialog }: { dialog: ReturnType<typeof useRecordDialog<Member>> }) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <ConfirmDialog
      open={dialog.open}
      onOpenChange={dialog.onOpenChange}
      title="Remove this member?"
      action="Remove member"
      onConfirm={async () => {
        await api.members.remove(dialog.record?.id ?? '')
        await queries.invalidateQueries({ queryKey: ['members'] })
        toast.done('Member removed')
      }}
    >
      <p>
        <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{dialog.record?.name}</bdi> is signed out at once
        and cannot sign in again.
      </p>
      <p>API keys that they created keep working. Rotate those that they may have copied.</p>
    </ConfirmDialog>
  )
}

/** For whom a link is made, and how it is given out. */
interface NewLink {
  member: Member
  delivery: 'link' | 'email'
}

/** Asks how a new link is given out. Each one ends those before it. */
function NewLinkDialog({
  dialog,
  onMake,
}: {
  dialog: ReturnType<typeof useRecordDialog<Member>>
  onMake: (link: NewLink) => void
}) {
  const { record: member, open, onOpenChange } = dialog
  const choose = (delivery: NewLink['delivery']) => {
    onOpenChange(false)
    if (member !== null) onMake({ member, delivery })
  }
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title={`A new link for ${member?.name ?? ''}`}
      description="The link works once. Earlier links stop working."
    >
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={() => choose('link')}>Show it to me</Button>
        <Button tone="primary" onClick={() => choose('email')}>
          Send an email to them
        </Button>
      </div>
    </Dialog>
  )
}

/** Makes links for members. @returns the one to show, and what makes another */
function useLinks() {
  const [made, setMade] = useState<MemberWithLink | null>(null)
  const { failed } = useToast()
  const queries = useQueryClient()
  const { mutate } = useMutation({
    mutationFn: ({ member, delivery }: NewLink) => api.members.createLink(member.id, { delivery }),
    onSuccess: async (member) => {
      setMade(member)
      await queries.invalidateQueries({ queryKey: ['members'] })
    },
    onError: (error) => failed('No link was made', messageOf(error)),
  })
  return { made, make: mutate, close: () => setMade(null) }
}

/** The people who use the dashboard: invite them, give them roles, remove them. */
export function MembersPage() {
  const { values, page } = useFilters()
  const { session } = useSession()
  const [inviting, setInviting] = useState(false)
  const editing = useRecordDialog<Member>()
  const removing = useRecordDialog<Member>()
  const { made, make, close } = useLinks()
  const linking = useRecordDialog<Member>()
  const apps = useApps()
  const mayWrite = allows(session, 'members:write')
  const { show: edit } = editing
  const { show: remove } = removing
  const { show: link } = linking
  const columns = useMemo(() => {
    const nameOf = (appId: string) => apps.find(({ id }) => id === appId)?.name ?? appId
    const acts = mayWrite ? { session, edit, remove, link } : null
    return columnsFor(nameOf, session.member?.id ?? null, acts)
  }, [apps, session, mayWrite, edit, remove, link])
  const filter = {
    status: STATUSES.find((each) => each === values.status),
    role: ROLES.find((each) => each === values.role),
  }
  const query = useQuery({
    queryKey: ['members', 'list', filter, page],
    queryFn: async ({ signal }) => await api.members.list({ ...filter, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const isFiltered = Object.values(filter).some((value) => value !== undefined)
  return (
    <Page
      title="Members"
      description="People who use this dashboard, each with a role. The audit log shows what they do."
      actions={
        mayWrite ? (
          <Button tone="primary" onClick={() => setInviting(true)}>
            <Plus aria-hidden className="size-4" />
            Invite member
          </Button>
        ) : undefined
      }
    >
      <Card flush>
        <Filters>
          <FilterSelect name="role" label="Role" options={ROLES} />
          <FilterSelect name="status" label="Status" options={STATUSES} />
        </Filters>
        <DataTable
          label="Members"
          query={query}
          columns={columns}
          phone={PHONE}
          empty={
            isFiltered ? (
              <NoMatches names={['role', 'status']} what="members" />
            ) : (
              <EmptyState title="No members yet">
                Invite the people who work with this dashboard, so that each has a name and a role.
              </EmptyState>
            )
          }
        />
      </Card>
      {session.via === 'link' || session.member?.role === 'owner' ? <SignInCard /> : null}
      <InviteDialog open={inviting} onClose={() => setInviting(false)} />
      <NewLinkDialog dialog={linking} onMake={make} />
      <MadeDialog made={made} onClose={close} />
      <EditDialog member={editing.record} open={editing.open} onOpenChange={editing.onOpenChange} />
      <RemoveDialog dialog={removing} />
    </Page>
  )
}

import type { Member, MemberWithLink } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, type DashboardSession, type Role } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Form } from '../../components/form/form.tsx'
import type { FormField, Option } from '../../components/form/form-field.ts'
import { Dialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { Secret } from '../../components/records/copy.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { useSession } from '../../shell/session-context.ts'

/** The roles from the least to the greatest, in words. */
const ROLES: readonly { value: Role; label: string; about: string }[] = [
  { value: 'viewer', label: 'Viewer', about: 'Sees apps, settings and figures, and no personal data.' },
  { value: 'support', label: 'Support', about: 'Sees users, wallets and the audit log, and no secrets.' },
  { value: 'developer', label: 'Developer', about: 'Changes apps, API keys, webhooks and domains.' },
  { value: 'admin', label: 'Admin', about: 'Changes users, wallets, sessions, members and billing.' },
  { value: 'owner', label: 'Owner', about: 'May do everything, and manages other owners.' },
]

/** The roles that a session may give: up to a member's own; a key makes no owner. */
function rolesOf({ member, via }: DashboardSession): readonly Option[] {
  const greatest = member?.role ?? (via === 'link' ? 'owner' : 'admin')
  return ROLES.slice(0, ROLES.findIndex(({ value }) => value === greatest) + 1)
}

/** Whether a session may change somebody with this role. */
export const reaches = (session: DashboardSession, role: Role): boolean =>
  rolesOf(session).some(({ value }) => value === role)

interface Input {
  email: string
  name: string
  role: Role
  appIds: string[]
  delivery: 'link' | 'email'
}

const DELIVERY: FormField<Input> = {
  name: 'delivery',
  label: 'Invitation',
  kind: 'select',
  options: [
    { value: 'link', label: 'Show me a link to send' },
    { value: 'email', label: 'Send an email to them' },
  ],
  help: ({ delivery }) =>
    delivery === 'email'
      ? 'Only they get the link, so opening it proves their address.'
      : 'You see the link once, and send it to them.',
}

const hasAllApps = (role: Role) => role === 'admin' || role === 'owner'

function AppChoices({
  apps,
  chosen,
  onChange,
}: {
  apps: readonly Option[]
  chosen: readonly string[]
  onChange: (chosen: string[]) => void
}) {
  const toggle = (id: string) => onChange(chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id])
  return (
    <div className="flex flex-wrap gap-2">
      {apps.map(({ value, label }) => (
        <label
          key={value}
          className="flex min-h-9 cursor-pointer items-center gap-2 rounded-control border border-edge/50 px-3 text-sm [overflow-wrap:anywhere] hover:bg-raised has-checked:border-accent has-checked:bg-accent-wash max-md:min-h-11"
        >
          <input
            type="checkbox"
            checked={chosen.includes(value)}
            onChange={() => toggle(value)}
            className="size-4 flex-none accent-accent"
          />
          {label}
        </label>
      ))}
    </div>
  )
}

function rightsFields(apps: readonly Option[], session: DashboardSession): FormField<Input>[] {
  return [
    {
      name: 'role',
      label: 'Role',
      kind: 'select',
      options: rolesOf(session),
      help: ({ role }) => ROLES.find(({ value }) => value === role)?.about,
    },
    {
      name: 'appIds',
      label: 'Apps',
      kind: 'group',
      help: 'Choose none to allow all apps.',
      shown: ({ role }) => apps.length > 1 && !hasAllApps(role),
      render: ({ value, onChange }) => <AppChoices apps={apps} chosen={value} onChange={onChange} />,
    },
  ]
}

const NAME: FormField<Input> = { name: 'name', label: 'Name', input: { dir: 'auto' } }

/** What the API takes: no choice of apps stands for all. */
const appsOf = ({ role, appIds }: Input) => (hasAllApps(role) || appIds.length === 0 ? null : appIds)

function InviteForm({ onInvited, onCancel }: { onInvited: (member: MemberWithLink) => void; onCancel: () => void }) {
  const { session } = useSession()
  const apps = useAppOptions()
  const queries = useQueryClient()
  const email: FormField<Input> = {
    name: 'email',
    label: 'Email',
    required: 'Enter their email address.',
    input: { type: 'email', spellCheck: false },
  }
  return (
    <Form<Input>
      fields={[email, { ...NAME, help: 'Optional.' } as FormField<Input>, ...rightsFields(apps, session), DELIVERY]}
      values={{ email: '', name: '', role: 'viewer', appIds: [], delivery: 'link' }}
      action="Invite"
      onCancel={onCancel}
      onSubmit={async (input) => {
        const { email, name, role, delivery } = input
        const named = name.trim() === '' ? {} : { name }
        onInvited(await api.members.invite({ email, role, ...named, appIds: appsOf(input), delivery }))
        await queries.invalidateQueries({ queryKey: ['members'] })
      }}
    />
  )
}

/** Says that a link was mailed, or shows it, once. */
export function MadeDialog({ made, onClose }: { made: MemberWithLink | null; onClose: () => void }) {
  if (made === null || made.link !== null) return <LinkDialog made={made} onClose={onClose} />
  return (
    <Dialog
      open
      onOpenChange={(open) => (open ? undefined : onClose())}
      title="Email on its way"
      description={`Halfkey mails a link to ${made.email}. It signs them in once.`}
    >
      <div className="flex justify-end">
        <Button tone="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  )
}

/** Shows a link for a member, once. */
function LinkDialog({ made, onClose }: { made: MemberWithLink | null; onClose: () => void }) {
  return (
    <Dialog
      open={made !== null}
      onOpenChange={(open) => (open ? undefined : onClose())}
      title={`A link for ${made?.name ?? ''}`}
      description="It signs them in once. Send it to nobody else: whoever opens it first is signed in as them."
    >
      <Secret label="Link" value={made?.link?.url ?? ''} onDone={onClose} />
    </Dialog>
  )
}

/** Invites somebody and shows their link. */
export function InviteDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [made, setMade] = useState<MemberWithLink | null>(null)
  const close = () => {
    setMade(null)
    onClose()
  }
  if (made !== null) return <MadeDialog made={made} onClose={close} />
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title="Invite a member"
      description="Somebody who uses this dashboard."
    >
      <InviteForm onInvited={setMade} onCancel={close} />
    </Dialog>
  )
}

function EditForm({ member, onDone }: { member: Member; onDone: () => void }) {
  const { session } = useSession()
  const apps = useAppOptions()
  const queries = useQueryClient()
  const { done } = useToast()
  const isOwn = session.member?.id === member.id
  return (
    <Form<Input>
      fields={isOwn ? [NAME] : [NAME, ...rightsFields(apps, session)]}
      values={{
        email: member.email,
        name: member.name,
        role: member.role,
        appIds: member.appIds ?? [],
        delivery: 'link',
      }}
      action="Save changes"
      onCancel={onDone}
      onSubmit={async (input, changes) => {
        const rights = changes.role === undefined && changes.appIds === undefined
        await api.members.update(member.id, {
          ...(changes.name === undefined ? {} : { name: changes.name }),
          ...(rights ? {} : { role: input.role, appIds: appsOf(input) }),
        })
        await queries.invalidateQueries({ queryKey: ['members'] })
        done('Changes saved', 'They take effect with the next action of the member.')
        onDone()
      }}
    />
  )
}

/** Changes a member. */
export function EditDialog({
  member,
  open,
  onOpenChange,
}: {
  member: Member | null
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title="Edit the member">
      {member === null ? null : <EditForm member={member} onDone={() => onOpenChange(false)} />}
    </Dialog>
  )
}

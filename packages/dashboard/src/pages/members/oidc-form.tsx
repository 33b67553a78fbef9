import type { MemberSignIn } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Form } from '../../components/form/form.tsx'
import type { FormField } from '../../components/form/form-field.ts'
import { ConfirmDialog, Dialog } from '../../components/layout/dialog.tsx'
import { CopyableId } from '../../components/records/copy.tsx'

interface Input {
  name: string
  issuer: string
  clientId: string
  clientSecret: string
}

const FIELDS: FormField<Input>[] = [
  {
    name: 'name',
    label: 'Name',
    required: 'Enter a name.',
    wireName: 'oidc.name',
    help: 'For the button “Sign in with …”.',
  },
  {
    name: 'issuer',
    label: 'Issuer',
    required: 'Enter the issuer.',
    wireName: 'oidc.issuer',
    input: { type: 'url', placeholder: 'https://login.example.com', spellCheck: false },
  },
  {
    name: 'clientId',
    label: 'Client id',
    required: 'Enter the client id.',
    wireName: 'oidc.clientId',
    input: { spellCheck: false },
  },
  {
    name: 'clientSecret',
    label: 'Client secret',
    wireName: 'oidc.clientSecret',
    help: 'Leave it empty to keep the stored one.',
    input: { type: 'password', spellCheck: false },
  },
]

/** The login of the organisation: set, changed or turned off. */
export function Oidc({ oidc, onChanged }: { oidc: MemberSignIn['oidc']; onChanged: () => Promise<void> }) {
  const [is, setIs] = useState<'shown' | 'editing' | 'removing'>('shown')
  const queries = useQueryClient()
  const close = () => setIs('shown')
  const save = async (given: Parameters<typeof api.members.updateSignIn>[0]) => {
    await api.members.updateSignIn(given)
    await queries.invalidateQueries({ queryKey: ['own-login'] })
    await onChanged()
    close()
  }
  return (
    <div className="flex flex-wrap items-start justify-between gap-3">
      <div className="min-w-0">
        <p className="text-sm font-medium">Login of your organisation</p>
        <p className="text-sm text-soft">{oidc === null ? 'OpenID Connect. Off.' : <bdi>{oidc.name}</bdi>}</p>
        {oidc === null ? null : <CopyableId id={oidc.callbackUrl} what="callback URL" />}
      </div>
      <div className="flex gap-2">
        <Button onClick={() => setIs('editing')}>{oidc === null ? 'Set up' : 'Change'}</Button>
        {oidc === null ? null : <Button onClick={() => setIs('removing')}>Turn off</Button>}
      </div>
      <Dialog
        open={is === 'editing'}
        onOpenChange={(open) => (open ? undefined : close())}
        title="Login of your organisation"
        description="Members connect their accounts there in “Your account”. With another issuer or client id, they connect again."
      >
        <Form<Input>
          fields={FIELDS}
          values={{ name: '', issuer: '', clientId: '', ...oidc, clientSecret: '' }}
          action="Save changes"
          onCancel={close}
          onSubmit={({ name, issuer, clientId, clientSecret }) =>
            save({ oidc: { name, issuer, clientId, ...(clientSecret === '' ? {} : { clientSecret }) } })
          }
        />
      </Dialog>
      <ConfirmDialog
        open={is === 'removing'}
        onOpenChange={(open) => (open ? undefined : close())}
        title="Turn this login off?"
        action="Turn off"
        onConfirm={() => save({ oidc: null })}
      >
        <p>Members can no longer sign in with it. Active sessions continue.</p>
      </ConfirmDialog>
    </div>
  )
}

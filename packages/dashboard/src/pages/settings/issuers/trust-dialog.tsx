import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../api.ts'
import { Form } from '../../../components/form/form.tsx'
import type { FormField } from '../../../components/form/form-field.ts'
import { Dialog } from '../../../components/layout/dialog.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { changesOf, inputOf, NAME, SETTINGS } from './issuer-fields.ts'
import { type NewIssuer, PRESETS } from './presets.ts'

const OTHER = 'other'
const BLANK: NewIssuer = {
  issuer: '',
  audiences: [],
  algorithms: ['RS256', 'ES256'],
  claims: { sub: 'sub', email: 'email', emailVerified: 'email_verified', name: 'name' },
}

interface Choice {
  preset: string
  address: string
  audience: string
}

const presetOf = ({ preset }: Choice) => PRESETS.find(({ id }) => id === preset)

const CHOICE: FormField<Choice>[] = [
  {
    name: 'preset',
    label: 'Login',
    kind: 'select',
    options: [...PRESETS.map(({ id, name }) => ({ value: id, label: name })), { value: OTHER, label: 'Another one' }],
  },
  {
    name: 'address',
    label: 'Address',
    required: 'Enter the address.',
    help: (choice) => {
      const asked = presetOf(choice)?.address
      return asked === undefined ? null : `${asked.label}: ${asked.help} For example ${asked.example}.`
    },
    input: { spellCheck: false },
    shown: (choice) => presetOf(choice) !== undefined,
  },
  {
    name: 'audience',
    label: 'Audience',
    required: 'Enter the audience.',
    help: (choice) => {
      const asked = presetOf(choice)?.audience
      return asked == null ? null : `${asked.label}: ${asked.help} For example ${asked.example}.`
    },
    input: { spellCheck: false },
    shown: (choice) => presetOf(choice)?.audience != null,
  },
]

/** First the product and where it is, then all settings, filled in for it. */
function TrustForms({ appId, onDone }: { appId: string; onDone: () => void }) {
  const queries = useQueryClient()
  const toast = useToast()
  const [draft, setDraft] = useState<NewIssuer | null>(null)
  if (draft === null)
    return (
      <Form<Choice>
        key="choice"
        fields={CHOICE}
        values={{ preset: PRESETS[0]?.id ?? OTHER, address: '', audience: '' }}
        action="Continue"
        onCancel={onDone}
        onSubmit={async (choice) =>
          setDraft(presetOf(choice)?.settings(choice.address, choice.audience.trim()) ?? BLANK)
        }
      />
    )
  return (
    <Form
      key="settings"
      fields={[NAME, ...SETTINGS]}
      values={inputOf(draft)}
      action="Trust issuer"
      onCancel={onDone}
      onSubmit={async ({ issuer, ...settings }) => {
        await api.apps.issuers.create(appId, { issuer: issuer.trim(), ...changesOf(settings) })
        await queries.invalidateQueries({ queryKey: ['apps', appId] })
        toast.done('Issuer trusted', issuer.trim())
        onDone()
      }}
    />
  )
}

/** Makes an app trust an issuer. */
export function TrustDialog({ appId, open, onClose }: { appId: string; open: boolean; onClose: () => void }) {
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title="Trust an issuer"
      description="Its tokens sign users in. Whoever runs it can sign in as each of its users."
      wide
    >
      <TrustForms appId={appId} onDone={onClose} />
    </Dialog>
  )
}

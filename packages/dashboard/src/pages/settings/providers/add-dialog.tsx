import type { Provider } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Form } from '../../../components/form/form.tsx'
import { Dialog } from '../../../components/layout/dialog.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { CallbackUrl } from './callback-url.tsx'
import { BLANK, newProviderOf, settingsFor, WHICH } from './provider-fields.ts'

/** First the settings, then what is to be registered at the provider, which exists only now. */
function AddForms({ appId, onDone }: { appId: string; onDone: () => void }) {
  const queries = useQueryClient()
  const toast = useToast()
  const [added, setAdded] = useState<Provider | null>(null)
  if (added !== null)
    return (
      <div className="flex flex-col gap-4">
        <CallbackUrl url={added.callbackUrl} />
        <div className="flex justify-end">
          <Button tone="primary" onClick={onDone}>
            Done
          </Button>
        </div>
      </div>
    )
  return (
    <Form
      fields={[...WHICH, ...settingsFor(false)]}
      values={BLANK}
      action="Add provider"
      onCancel={onDone}
      onSubmit={async (input) => {
        const made = await api.apps.providers.create(appId, newProviderOf(input))
        await queries.invalidateQueries({ queryKey: ['apps', appId] })
        toast.done('Provider added', made.name)
        setAdded(made)
      }}
    />
  )
}

/** Adds a provider to an app. */
export function AddDialog({ appId, open, onClose }: { appId: string; open: boolean; onClose: () => void }) {
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title="Add a provider"
      description="Users sign in with their account there. Whoever runs it can sign in as each of them."
      wide
    >
      <AddForms appId={appId} onDone={onClose} />
    </Dialog>
  )
}

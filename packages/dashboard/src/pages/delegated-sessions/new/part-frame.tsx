import { Trash2 } from 'lucide-react'
import type { ReactNode } from 'react'
import { IconButton } from '../../../components/controls/button.tsx'

/** A frame around one rule or cap of a policy, with its name and a remove button. */
export function PartFrame({ name, onRemove, children }: { name: string; onRemove: () => void; children: ReactNode }) {
  return (
    <fieldset className="flex min-w-0 flex-col gap-4 rounded-control border p-4">
      <legend className="sr-only">{name}</legend>
      <div className="flex items-start justify-between gap-3">
        <p aria-hidden className="font-medium first-letter:uppercase">
          {name}
        </p>
        <IconButton label={`Remove ${name}`} onClick={onRemove} className="-mt-1.5 -mr-1.5">
          <Trash2 aria-hidden className="size-4" />
        </IconButton>
      </div>
      {children}
    </fieldset>
  )
}

import { AlertDialog } from '@base-ui/react/alert-dialog'
import { Dialog as Base } from '@base-ui/react/dialog'
import { X } from 'lucide-react'
import { type ReactNode, useRef, useState } from 'react'
import { messageOf } from '../../error-words.ts'
import { Button } from '../controls/button.tsx'
import { TextField } from '../controls/field.tsx'

const BACKDROP =
  'fixed inset-0 z-40 bg-[#000]/45 transition-opacity data-ending-style:opacity-0 data-starting-style:opacity-0'
const POPUP =
  'fixed top-1/2 left-1/2 z-50 flex max-h-[calc(100dvh-2rem)] w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col overflow-y-auto rounded-card border bg-surface p-5 shadow-popup transition-[opacity,scale] duration-100 data-ending-style:scale-98 data-ending-style:opacity-0 data-starting-style:scale-98 data-starting-style:opacity-0'

/** The first text field of a form. */
const FIRST_FIELD = 'form :is(input:not([type]), input[type=text], textarea):not([aria-hidden], [disabled])'

/** A controlled dialog. `wide` for content that needs more room. */
export function Dialog({
  open,
  onOpenChange,
  title,
  description,
  wide = false,
  sticky = false,
  children,
}: {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: string
  description?: ReactNode
  wide?: boolean
  /** Stays open on a click outside: for content that would be lost, such as a secret that is shown once. */
  sticky?: boolean
  children: ReactNode
}) {
  const popup = useRef<HTMLDivElement>(null)
  return (
    <Base.Root open={open} onOpenChange={(next) => onOpenChange(next)} disablePointerDismissal={sticky}>
      <Base.Portal>
        <Base.Backdrop className={BACKDROP} />
        <Base.Popup
          ref={popup}
          // A touch must not open the keyboard over what is to be read first.
          initialFocus={(how) =>
            how === 'touch' ? null : (popup.current?.querySelector<HTMLElement>(FIRST_FIELD) ?? null)
          }
          className={`${POPUP} ${wide ? 'max-w-3xl' : 'max-w-lg'}`}
        >
          <div className="mb-4 flex items-start justify-between gap-4">
            <div className="min-w-0">
              <Base.Title className="text-lg font-semibold [overflow-wrap:anywhere]">{title}</Base.Title>
              {description === undefined ? null : (
                <Base.Description className="mt-1 text-sm text-soft">{description}</Base.Description>
              )}
            </div>
            <Base.Close
              aria-label="Close"
              className="-mt-1 -mr-1 inline-flex size-9 flex-none items-center justify-center rounded-control text-soft hover:bg-raised max-md:size-11"
            >
              <X aria-hidden className="size-4" />
            </Base.Close>
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

/**
 * Asks for confirmation of an action that is hard to undo. If the action fails, the dialog stays open and shows the
 * error. `typed` is a text to type first, for very destructive actions.
 */
export function ConfirmDialog({
  open,
  onOpenChange,
  title,
  children,
  action,
  danger = true,
  typed,
  onConfirm,
}: {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: string
  /** The consequences. */
  children: ReactNode
  /** The button's words: a verb. */
  action: string
  danger?: boolean
  typed?: string
  onConfirm: () => Promise<unknown>
}) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const [written, setWritten] = useState('')
  const change = (next: boolean) => {
    setError(null)
    setWritten('')
    onOpenChange(next)
  }
  const confirm = async () => {
    setBusy(true)
    setError(null)
    try {
      await onConfirm()
      change(false)
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <AlertDialog.Root open={open} onOpenChange={(next) => change(next)}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className={BACKDROP} />
        <AlertDialog.Popup className={`${POPUP} max-w-md gap-4`}>
          <AlertDialog.Title className="text-lg font-semibold [overflow-wrap:anywhere]">{title}</AlertDialog.Title>
          <AlertDialog.Description render={<div />} className="flex flex-col gap-2 text-sm text-soft">
            {children}
          </AlertDialog.Description>
          {typed === undefined ? null : (
            <TextField label={`Type ${typed} to continue`} value={written} onChange={setWritten} autoComplete="off" />
          )}
          {error === null ? null : (
            <p role="alert" className="text-sm text-danger">
              {messageOf(error)}
            </p>
          )}
          <div className="flex flex-wrap justify-end gap-2">
            <AlertDialog.Close render={<Button />}>Cancel</AlertDialog.Close>
            <Button
              tone={danger ? 'danger' : 'primary'}
              busy={busy}
              disabled={typed !== undefined && written !== typed}
              onClick={() => void confirm()}
            >
              {action}
            </Button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}

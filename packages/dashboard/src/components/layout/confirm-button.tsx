import { type ComponentProps, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { ConfirmDialog } from './dialog.tsx'

/** A button that asks for confirmation. Apart from `label` it takes the properties of `ConfirmDialog`. */
export function ConfirmButton({
  label,
  tone = 'secondary',
  className = '',
  ...question
}: { label: string } & Pick<ComponentProps<typeof Button>, 'tone' | 'className'> &
  Omit<ComponentProps<typeof ConfirmDialog>, 'open' | 'onOpenChange'>) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button tone={tone} className={className} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <ConfirmDialog open={open} onOpenChange={setOpen} {...question} />
    </>
  )
}

import type { ComponentProps } from 'react'
import { Labelled, type LabelProps } from './field.tsx'
import { Select } from './select.tsx'

/** A select with its label. */
export function SelectField<T extends string>({
  hint,
  error,
  className = 'w-full',
  ...select
}: Omit<LabelProps, 'hideLabel'> & ComponentProps<typeof Select<T>>) {
  return (
    <Labelled label={select.label} hint={hint} error={error}>
      <Select {...select} className={className} />
    </Labelled>
  )
}

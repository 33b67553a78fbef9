import type { ReactNode } from 'react'
import { type FieldValues, useController, useFormContext, useWatch } from 'react-hook-form'
import { FieldGroup, SwitchField, TextArea, TextField } from '../controls/field.tsx'
import { SelectField } from '../controls/select-field.tsx'
import { type Derived, type FormField, shownFields } from './form-field.ts'

const derive = <V, T>(part: Derived<V, T>, values: V): T =>
  typeof part === 'function' ? (part as (values: V) => T)(values) : part

function problemOf<V extends FieldValues>({ required, validate }: FormField<V>, value: unknown): string | undefined {
  if (required !== undefined && (value === '' || (Array.isArray(value) && value.length === 0))) return required
  return validate?.(value as never)
}

const ROWS_MIN = 2
const ROWS_MAX = 10

/** As many lines as the text has, within limits. */
function rowsOf(text: string): number {
  return Math.min(ROWS_MAX, Math.max(ROWS_MIN, text.split('\n').length))
}

function FieldControl<V extends FieldValues>({ field, values }: { field: FormField<V>; values: V }): ReactNode {
  const form = useFormContext<V>()
  const { field: control, fieldState } = useController({
    control: form.control,
    name: field.name,
    rules: { validate: (value: unknown) => problemOf(field, value) ?? true },
  })
  const { onBlur, disabled = false, ref } = control
  const value = control.value as never
  const onChange: (value: unknown) => void = control.onChange
  const common = {
    label: field.label,
    hint: field.help === undefined ? undefined : derive<V, ReactNode>(field.help, values),
    error: fieldState.error?.message,
    ref,
  }
  if (field.kind === 'select') {
    const choose = (next: string) => {
      onChange(next)
      field.onChoose?.(next as never, form)
    }
    const options = derive(field.options, values)
    return <SelectField {...common} value={value} options={options} onChange={choose} disabled={disabled} />
  }
  if (field.kind === 'switch')
    return <SwitchField {...common} checked={value} onChange={onChange} disabled={disabled} />
  if (field.kind === 'group') return <FieldGroup {...common}>{field.render({ value, onChange })}</FieldGroup>
  const { kind, required } = field
  const text = { ...common, ...field.input, value, onChange, onBlur, disabled, 'aria-required': required !== undefined }
  if (kind === 'code' || kind === 'lines') return <TextArea rows={rowsOf(value)} {...text} mono />
  return <TextField autoComplete="off" {...text} />
}

/** Fields of the form around them, one below the other. */
export function FormFields<V extends FieldValues>({ fields }: { fields: readonly FormField<V>[] }) {
  const values = useWatch({ control: useFormContext<V>().control }) as V
  return shownFields(fields, values).map((field) => <FieldControl key={field.name} field={field} values={values} />)
}

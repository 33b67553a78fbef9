import type { FieldValues, UseFormReturn } from 'react-hook-form'
import { fieldErrors, messageOf } from '../../error-words.ts'
import type { FormField } from './form-field.ts'

const lineName = (index: string) => `Line ${Number(index) + 1}`

function messageFor<V extends FieldValues>(field: FormField<V>, path: string, message: string): string {
  const part = path.slice((field.wireName ?? field.name).length + 1)
  const partName = field.partName ?? (field.kind === 'lines' ? lineName : undefined)
  return part === '' || partName === undefined ? message : `${partName(part)}: ${message}`
}

/**
 * Puts what the server said of a field at that field and moves the focus to the first of them. If it said anything
 * that no field can show, its message stands at the form's root.
 */
export function placeErrors<V extends FieldValues>(
  form: UseFormReturn<V>,
  fields: readonly FormField<V>[],
  error: unknown,
): void {
  const found = Object.entries(fieldErrors(error)).map(([path, message]) => {
    const field = fields.findLast(({ name, wireName = name }) => path === wireName || path.startsWith(`${wireName}.`))
    return { field, message: field === undefined ? '' : messageFor(field, path, message) }
  })
  const wrong = fields.filter((each) => found.some(({ field }) => field === each))
  for (const [index, { name }] of wrong.entries()) {
    const message = found.flatMap((each) => (each.field?.name === name ? each.message : [])).join(' ')
    form.setError(name, { type: 'server', message }, { shouldFocus: index === 0 })
  }
  if (wrong.length === 0 || found.some(({ field }) => field === undefined))
    form.setError('root', { type: 'server', message: messageOf(error) })
}

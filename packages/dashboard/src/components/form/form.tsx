import type { ReactNode } from 'react'
import { type DefaultValues, type FieldValues, FormProvider, useForm } from 'react-hook-form'
import { Button } from '../controls/button.tsx'
import { changesOf, type FormField, shownFields } from './form-field.ts'
import { FormFields } from './form-fields.tsx'
import { placeErrors } from './server-errors.ts'

/** The buttons of a form in a dialog stay in view while its fields scroll. */
const IN_DIALOG = 'sticky -bottom-5 z-1 -mx-5 -mb-5 justify-end border-t bg-surface px-5 py-3'

interface FormProps<V extends FieldValues> {
  fields: readonly FormField<V>[]
  /** What the form begins with. */
  values: V
  /** Sends what was typed. `changes` holds the top-level values that differ from what the form began with. */
  onSubmit: (typed: V, changes: Partial<V>, before: V) => Promise<unknown>
  /** The submit button's words: a verb. */
  action: string
  /** In a dialog: closes it. */
  onCancel?: () => void
  /** The form changes a record and stays: there is nothing to save, or to discard, before something is changed. */
  stays?: boolean
  readOnly?: boolean
  className?: string
  /** The fields in another arrangement than one below the other. */
  children?: ReactNode
}

/**
 * A form, drawn from its fields. What the server refuses is said at the field that it names, which gets the focus; what
 * was typed stays.
 */
export function Form<V extends FieldValues>({
  fields,
  values,
  onSubmit,
  action,
  onCancel,
  stays = false,
  readOnly = false,
  className = '',
  children,
}: FormProps<V>) {
  const form = useForm<V>({ defaultValues: values as DefaultValues<V>, disabled: readOnly })
  const { errors, isDirty, isSubmitting, defaultValues } = form.formState
  const submit = form.handleSubmit(async (typed) => {
    const before = defaultValues as V
    try {
      await onSubmit(typed as V, changesOf(before, typed as V), before)
      if (stays) form.reset(typed)
    } catch (error) {
      placeErrors(form, shownFields(fields, typed as V), error)
    }
  })
  return (
    <FormProvider {...form}>
      <form noValidate onSubmit={(event) => void submit(event)} className={`flex min-w-0 flex-col gap-4 ${className}`}>
        {children ?? <FormFields fields={fields} />}
        {errors.root === undefined ? null : (
          <p role="alert" className="text-sm text-danger [overflow-wrap:anywhere]">
            {errors.root.message}
          </p>
        )}
        {readOnly ? null : (
          <div className={`flex flex-wrap gap-2 ${onCancel === undefined ? '' : IN_DIALOG}`}>
            {onCancel === undefined ? null : <Button onClick={onCancel}>Cancel</Button>}
            <Button tone="primary" type="submit" busy={isSubmitting} disabled={stays && !isDirty}>
              {action}
            </Button>
            {stays && isDirty ? <Button onClick={() => form.reset()}>Discard changes</Button> : null}
          </div>
        )}
      </form>
    </FormProvider>
  )
}

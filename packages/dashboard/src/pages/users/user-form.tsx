import type { User } from '@halfkey/sdk'
import { type ReactNode, useState } from 'react'
import { fieldErrors } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { TextField } from '../../components/controls/field.tsx'
import { FormError } from '../../components/form/form-error.tsx'
import { MetadataField, type MetadataRow, rowsOf } from '../../components/form/metadata-field.tsx'

/** What is typed of a user; empty stands for none. */
export interface UserInput {
  email: string
  name: string
  externalId: string
  metadata: MetadataRow[]
}

const FIELDS = ['email', 'name', 'externalId', 'metadata']

/** A user's fields as they are edited. */
export const inputOf = (user?: Pick<User, 'email' | 'name' | 'externalId' | 'metadata'>): UserInput => ({
  email: user?.email ?? '',
  name: user?.name ?? '',
  externalId: user?.externalId ?? '',
  metadata: rowsOf(user?.metadata ?? {}),
})

/**
 * The form of a user, to make one, to change one, and to say who a guest is. What is typed stays when it is refused.
 * `children` are further fields.
 */
export function UserForm({
  initial,
  action,
  busy,
  error,
  onCancel,
  onSubmit,
  extraFields = [],
  children,
}: {
  initial: UserInput
  /** The button's words: a verb. */
  action: string
  busy: boolean
  error: unknown
  onCancel: () => void
  onSubmit: (input: UserInput) => void
  /** The names of the fields in `children` that show their own errors. */
  extraFields?: readonly string[]
  children?: ReactNode
}) {
  const [input, setInput] = useState(initial)
  const errors = fieldErrors(error)
  const field = (name: 'email' | 'name' | 'externalId') => ({
    value: input[name],
    onChange: (value: string) => setInput((before) => ({ ...before, [name]: value })),
    error: errors[name],
    autoComplete: 'off',
  })
  return (
    <form
      noValidate
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault()
        onSubmit(input)
      }}
    >
      <TextField label="Email" inputMode="email" spellCheck={false} dir="auto" {...field('email')} />
      <TextField label="Name" dir="auto" {...field('name')} />
      <TextField
        label="External id"
        hint="Your own id of this user, unique in the app."
        spellCheck={false}
        {...field('externalId')}
      />
      {children}
      <MetadataField
        rows={input.metadata}
        onChange={(metadata) => setInput((before) => ({ ...before, metadata }))}
        errors={errors}
      />
      <FormError error={error} fields={[...FIELDS, ...extraFields]} />
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button tone="primary" type="submit" busy={busy}>
          {action}
        </Button>
      </div>
    </form>
  )
}

import { fieldErrors, messageOf } from '../../api.ts'

/** What a form's server said that belongs to none of its fields. */
export function FormError({ error, fields }: { error: unknown; fields: readonly string[] }) {
  if (error === null || error === undefined) return null
  const named = Object.keys(fieldErrors(error)).map((field) => field.split('.', 1)[0])
  if (named.length > 0 && named.every((field) => fields.includes(field ?? ''))) return null
  return (
    <p role="alert" className="rounded-control bg-danger-wash px-3 py-2 text-sm text-danger [overflow-wrap:anywhere]">
      {messageOf(error)}
    </p>
  )
}

import { fieldErrors, messageOf } from '../../api.ts'

/** What an error says beyond the fields of the form, which show their own; nothing if there is no more. */
export function FormError({ error, fields = [] }: { error: unknown; fields?: readonly string[] }) {
  if (error === null || error === undefined) return null
  const named = Object.keys(fieldErrors(error))
  const shown = (name: string) => fields.some((field) => name === field || name.startsWith(`${field}.`))
  if (named.length > 0 && named.every(shown)) return null
  return (
    <p role="alert" className="text-sm text-danger [overflow-wrap:anywhere]">
      {messageOf(error)}
    </p>
  )
}

import type { Deps } from '../../platform/deps.ts'
import { type ErrorDetail, fail, invalid } from '../../platform/http/errors.ts'
import { detailOfViolation } from '../../platform/http/schema.ts'
import type { Id } from '../../platform/ids.ts'

const DETAILS_MAX = 50
const TOO_COMPLEX =
  'The schema of this type needs too many steps for this data. Simplify the schema, or send less data.'

type Json = Record<string, unknown>

/** Data that is checked against a schema, and the field of the request that holds it. */
export interface Checked {
  field: string
  /** As JSON. */
  schema: string
  data: string
}

/** The time that it takes is bounded, and other calls go on meanwhile. @throws validation_failed, field by field; rate_limited */
export async function requireValid(deps: Deps, tenantId: Id<'ten'>, checked: readonly Checked[]): Promise<void> {
  if (checked.length === 0) return
  const subjects = checked.map(({ schema, data }) => ({ schema, data }))
  const verdicts = await deps.jsonSchemas.validate(tenantId, subjects)
  const details = checked.flatMap(({ field }, at): ErrorDetail[] => {
    const verdict = verdicts[at] ?? []
    if (verdict === 'too complex') return [{ field, code: 'schema_too_complex', message: TOO_COMPLEX }]
    return verdict.map(({ path, ...problem }) => detailOfViolation({ ...problem, field: [field, ...path].join('.') }))
  })
  if (details.length > 0) throw fail('validation_failed', details.slice(0, DETAILS_MAX))
}

/** @throws validation_failed for a schema that cannot be used, or an example that does not match it; rate_limited */
export async function checkSchema(
  deps: Deps,
  tenantId: Id<'ten'>,
  schema: Json | null,
  example: Json | null,
): Promise<void> {
  if (schema === null) return
  const refusal = await deps.jsonSchemas.check(tenantId, schema)
  if (refusal !== null) throw invalid(['schema', ...refusal.path].join('.'), refusal.message)
  if (example === null) return
  const subject = { field: 'example', schema: JSON.stringify(schema), data: JSON.stringify(example) }
  await requireValid(deps, tenantId, [subject])
}

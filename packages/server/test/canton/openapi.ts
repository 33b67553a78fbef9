import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import { parse } from 'yaml'

/*
 * Canton's official description of its JSON Ledger API. It is not part of this repository: where it lies beside it, or where
 * CANTON_OPENAPI says, every request to the simulated participant is held against it.
 */

const PATH = process.env.CANTON_OPENAPI ?? join(import.meta.dirname, '../../../../../shared/data/canton/openapi.yaml')

interface Description {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: object }> } }>>
  components: object
}

/** What is wrong with a request's body; null if nothing is, or nothing can be said. */
export type CheckBody = (path: string, body: unknown) => string | null

/** Unknown fields are errors here: a participant ignores them, and what they were to say with them. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]))
  if ('properties' in copy && !('oneOf' in copy) && !('additionalProperties' in copy)) copy.additionalProperties = false
  return copy
}

/** Undefined where the description is not at hand. */
export function openDescription(): CheckBody | undefined {
  if (!existsSync(PATH)) return undefined
  const { paths, components } = parse(readFileSync(PATH, 'utf8')) as Description
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false })
  ajv.addSchema({ $id: 'api', components: closed(components) })
  const known = new Map<string, ValidateFunction | null>()
  return (path, body) => {
    let check = known.get(path)
    if (check === undefined) {
      const schema = paths[path]?.post?.requestBody?.content['application/json']?.schema as
        | { $ref?: string }
        | undefined
      check = schema?.$ref === undefined ? null : ajv.compile({ $ref: `api${schema.$ref}` })
      known.set(path, check)
    }
    return check === null || check(body) ? null : ajv.errorsText(check.errors)
  }
}

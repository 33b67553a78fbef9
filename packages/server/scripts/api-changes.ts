// Finds what a newer description of the API removes or narrows. Additions are no change: a client ignores what it does not
// know, and values of an enum in an answer are open.

/** A JSON Schema, or any other object of an OpenAPI document. */
// biome-ignore lint/suspicious/noExplicitAny: a document that is walked by path
type Json = any

/** `sent`: the service must accept all that it accepted. `received`: an answer must hold all that it held. */
type Direction = 'sent' | 'received'

interface Comparison {
  before: Json
  after: Json
  direction: Direction
  found: string[]
  /** Pairs of references that are being compared: schemas may contain themselves. */
  open: Set<string>
}

const UPPER_LIMITS = ['maxLength', 'maxItems', 'maxProperties', 'maximum']
const LOWER_LIMITS = ['minLength', 'minItems', 'minProperties', 'minimum']
const METHODS = ['get', 'post', 'put', 'patch', 'delete']

const resolve = (document: Json, value: Json): Json =>
  value?.$ref === undefined
    ? value
    : resolve(
        document,
        value.$ref
          .slice(2)
          .split('/')
          .reduce((at: Json, part: string) => at?.[part], document),
      )

const alternativesOf = (schema: Json): Json[] => schema.anyOf ?? [schema]
const typesOf = ({ type }: Json): string[] | undefined => (typeof type === 'string' ? [type] : type)
const valuesOf = (schema: Json): unknown[] | undefined => ('const' in schema ? [schema.const] : schema.enum)
const includesType = (types: string[], type: string) =>
  types.includes(type) || (type === 'integer' && types.includes('number'))

function compareTypes(before: Json, after: Json, place: string, { direction, found }: Comparison): void {
  const [wide, narrow] = direction === 'sent' ? [after, before] : [before, after]
  const [allowed, given] = [typesOf(wide), typesOf(narrow)]
  const complaint = direction === 'sent' ? 'is no longer accepted' : 'was never answered before'
  if (allowed === undefined || (given === undefined && valuesOf(narrow) !== undefined)) return
  const others = given?.filter((type) => !includesType(allowed, type)) ?? ['any other type']
  for (const type of others) found.push(`${place}: ${type} ${complaint}`)
}

function compareValues(before: Json, after: Json, place: string, { direction, found }: Comparison): void {
  const [was, is] = [valuesOf(before), valuesOf(after)]
  if (is === undefined) return
  if (was === undefined) {
    if (direction === 'sent') found.push(`${place}: accepts some values only`)
    return
  }
  for (const value of was) if (!is.includes(value)) found.push(`${place}: value ${JSON.stringify(value)} is gone`)
}

function compareLimits(before: Json, after: Json, place: string, { direction, found }: Comparison): void {
  for (const name of ['pattern', 'format']) {
    // Whether one pattern accepts less than another cannot be told: any other one counts.
    const [rule, other] = direction === 'sent' ? [after[name], before[name]] : [before[name], after[name]]
    if (rule !== undefined && rule !== other) found.push(`${place}: another ${name}`)
  }
  if (direction === 'received') return
  for (const name of UPPER_LIMITS)
    if (after[name] < (before[name] ?? Number.POSITIVE_INFINITY)) found.push(`${place}: lower ${name}`)
  for (const name of LOWER_LIMITS)
    if (after[name] > (before[name] ?? Number.NEGATIVE_INFINITY)) found.push(`${place}: higher ${name}`)
  if (after.uniqueItems === true && before.uniqueItems !== true) found.push(`${place}: unique items only`)
}

function compareProperties(before: Json, after: Json, place: string, comparison: Comparison): void {
  const { direction, found } = comparison
  const [was, is] = [before.properties ?? {}, after.properties ?? {}]
  for (const [name, schema] of Object.entries(was)) {
    const inner = `${place}.${name}`
    if (is[name] !== undefined) compareSchemas(schema, is[name], inner, comparison)
    else if (direction === 'received' || after.additionalProperties === false) found.push(`${inner}: is gone`)
  }
  const [must, had] = direction === 'sent' ? [after, before] : [before, after]
  for (const name of must.required ?? []) {
    if (had.required?.includes(name)) continue
    if (direction === 'sent') found.push(`${place}.${name}: is required now`)
    else if (is[name] !== undefined) found.push(`${place}.${name}: may be absent now`)
  }
  const [rest, restNow] = [before.additionalProperties, after.additionalProperties]
  if (typeof rest === 'object' && typeof restNow === 'object') compareSchemas(rest, restNow, `${place}.*`, comparison)
  else if (direction === 'sent' && rest !== false && restNow === false && before.properties !== undefined)
    found.push(`${place}: other properties are no longer accepted`)
}

/** Whether something of `before` is gone in `after`. */
function differs(before: Json, after: Json, comparison: Comparison): boolean {
  const found: string[] = []
  compareSchemas(before, after, '', { ...comparison, found })
  return found.length > 0
}

function compareSchemas(one: Json, other: Json, place: string, comparison: Comparison): void {
  const pair = `${one.$ref} ${other.$ref}`
  if (one.$ref !== undefined && comparison.open.has(pair)) return
  const nested = { ...comparison, open: new Set([...comparison.open, pair]) }
  const [before, after] = [resolve(comparison.before, one), resolve(comparison.after, other)]
  if (before.anyOf !== undefined || after.anyOf !== undefined) {
    const isNull = (schema: Json) => typesOf(resolve(comparison.after, schema))?.includes('null') === true
    const [was, is] = [alternativesOf(before), alternativesOf(after)]
    was.forEach((alternative, at) => {
      if (is.every((now) => differs(alternative, now, nested)))
        comparison.found.push(`${place}: alternative ${at} is gone`)
    })
    if (comparison.direction === 'received' && is.some(isNull) && !was.some(isNull))
      comparison.found.push(`${place}: null was never answered before`)
    return
  }
  compareTypes(before, after, place, nested)
  compareValues(before, after, place, nested)
  compareLimits(before, after, place, nested)
  compareProperties(before, after, place, nested)
  for (const [name, mark] of [
    ['items', '[]'],
    ['propertyNames', '.*'],
  ] as const)
    if (before[name] !== undefined && after[name] !== undefined)
      compareSchemas(before[name], after[name], place + mark, nested)
}

function compareContents(was: Json, is: Json, place: string, comparison: Comparison): void {
  for (const [type, { schema }] of Object.entries<Json>(was?.content ?? {})) {
    const now = is?.content?.[type]
    if (now === undefined) comparison.found.push(`${place}: ${type} is gone`)
    else if (schema !== undefined && now.schema !== undefined) compareSchemas(schema, now.schema, place, comparison)
  }
}

function compareParameters(was: Json, is: Json, place: string, comparison: Comparison): void {
  const byName = (document: Json, operation: Json) => {
    const all: Json[] = (operation.parameters ?? []).map((parameter: Json) => resolve(document, parameter))
    return new Map(all.map((parameter) => [`${parameter.in} ${parameter.name}`, parameter]))
  }
  const [before, after] = [byName(comparison.before, was), byName(comparison.after, is)]
  for (const [name, parameter] of before) {
    const now = after.get(name)
    if (now === undefined) comparison.found.push(`${place} ${name}: is gone`)
    else compareSchemas(parameter.schema, now.schema, `${place} ${name}`, comparison)
  }
  for (const [name, parameter] of after)
    if (parameter.required === true && before.get(name)?.required !== true)
      comparison.found.push(`${place} ${name}: is required now`)
}

/** The error codes of an operation, as `status code`. Only the description of a status names them. */
function errorCodes(operation: Json): string[] {
  return Object.entries<Json>(operation.responses)
    .filter(([status]) => Number(status) >= 400)
    .flatMap(([status, { description }]) =>
      [...description.matchAll(/`(\w+)`/g)].map(([, code]) => `${status} ${code}`),
    )
}

function compareOperations(was: Json, is: Json, place: string, comparison: Comparison): void {
  const { found } = comparison
  if (was.operationId !== is.operationId) found.push(`${place}: another operationId`)
  const [security, securityNow] = [comparison.before, comparison.after].map((document, at) =>
    ((at === 0 ? was : is).security ?? document.security ?? []).map((one: Json) => JSON.stringify(one)),
  ) as [string[], string[]]
  for (const one of security) if (!securityNow.includes(one)) found.push(`${place}: ${one} is no longer enough`)
  compareParameters(was, is, place, { ...comparison, direction: 'sent' })
  const body = `${place} body`
  if (is.requestBody?.required === true && was.requestBody?.required !== true) found.push(`${body}: is required now`)
  compareContents(was.requestBody, is.requestBody, body, { ...comparison, direction: 'sent' })
  for (const [status, response] of Object.entries(was.responses)) {
    const now = is.responses[status]
    if (now === undefined) found.push(`${place} ${status}: is gone`)
    else compareContents(response, now, `${place} ${status}`, { ...comparison, direction: 'received' })
  }
  const codes = errorCodes(is)
  for (const code of errorCodes(was)) if (!codes.includes(code)) found.push(`${place} ${code}: is gone`)
}

/** What `after` removes or narrows of `before`, each as one line that says where. Both are OpenAPI 3.1 documents. */
export function apiChanges(before: Json, after: Json): string[] {
  const found: string[] = []
  const comparison: Comparison = { before, after, direction: 'sent', found, open: new Set() }
  for (const [path, item] of Object.entries<Json>(before.paths)) {
    for (const method of METHODS.filter((name) => item[name] !== undefined)) {
      const place = `${method.toUpperCase()} ${path}`
      const now = after.paths[path]?.[method]
      if (now === undefined) found.push(`${place}: is gone`)
      else compareOperations(item[method], now, place, comparison)
    }
  }
  return [...new Set(found)]
}

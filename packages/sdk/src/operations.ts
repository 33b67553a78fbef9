import type { paths } from './api.gen.ts'

/** The methods that the API uses. */
export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** Paths, as the API's description writes them, that have this method. */
export type PathWith<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: unknown } ? P : never
}[keyof paths]

type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>

type OrNothing<T> = [T] extends [never] ? Record<never, never> : T

type Parameters<P extends keyof paths, M extends Method, In extends 'path' | 'query'> =
  Operation<P, M> extends { parameters: { [K in In]?: infer Named } } ? OrNothing<NonNullable<Named>> : never

/** The ids in a path, by name; empty if there are none. */
export type PathIds<P extends keyof paths, M extends Method> = Parameters<P, M, 'path'>

/** The JSON body that an operation takes; `undefined` if it takes none. */
export type Body<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { requestBody?: infer Sent }
    ? [NonNullable<Sent>] extends [never]
      ? undefined
      : NonNullable<Sent> extends { content: { 'application/json': infer Content } }
        ? Content
        : undefined
    : undefined

type Success<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { responses: infer All }
    ? All[keyof All & (200 | 201)] extends { content: { 'application/json': infer Content } }
      ? Content
      : never
    : never

/** The `data` of an operation's successful response: a record, or the records of a page. */
export type Data<P extends keyof paths, M extends Method> = Success<P, M> extends { data: infer D } ? D : never

/** Paths whose GET returns a page of records. */
export type ListPath = {
  [P in PathWith<'get'>]: Success<P, 'get'> extends { hasMore: boolean } ? P : never
}[PathWith<'get'>]

/** One record of a list. */
export type Item<P extends ListPath> = Data<P, 'get'> extends (infer One)[] ? One : never

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

type QueryValue<Name, Value> = Name extends 'page' | 'page_size' | 'limit' | 'last' | 'wait'
  ? number
  : [Value] extends ['true' | 'false']
    ? boolean
    : Value

/**
 * An operation's query parameters as JavaScript writes them: camelCase instead of the wire's snake_case
 * (`trust_level` is `trustLevel`), numbers for `page`, `pageSize` and other counts, booleans for `'true' | 'false'`.
 */
export type Query<P extends keyof paths, M extends Method> = {
  [Name in keyof Parameters<P, M, 'query'> as CamelCase<Name & string>]?:
    | QueryValue<Name, Exclude<Parameters<P, M, 'query'>[Name], undefined>>
    | undefined
}

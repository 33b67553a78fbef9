import type { ComponentProps, ReactNode } from 'react'
import type { FieldPath, FieldPathValue, FieldValues, UseFormReturn } from 'react-hook-form'

/** A part of a field that may depend on what the form holds. */
export type Derived<V, T> = T | ((values: V) => T)

/** One of the choices of a select. */
export interface Option {
  value: string
  label: string
}

/** What a control gets: the field's value, and how to change it. */
export interface Bound<T> {
  value: T
  onChange: (value: T) => void
}

/** Attributes of an input; `rows` of a text area. */
type InputProps = Pick<
  ComponentProps<'input'>,
  'type' | 'inputMode' | 'placeholder' | 'dir' | 'step' | 'spellCheck' | 'className'
> & { rows?: number }

type Kind<V extends FieldValues, T> =
  /** `code` has several lines. So has `lines`, one for each entry of a list. */
  | { kind?: 'text' | 'code' | 'lines'; input?: InputProps }
  /** `onChoose` changes other fields that depend on the choice. */
  | { kind: 'select'; options: Derived<V, readonly Option[]>; onChoose?: (value: T, form: UseFormReturn<V>) => void }
  | { kind: 'switch' }
  /** Several controls under one legend. */
  | { kind: 'group'; render: (bound: Bound<T>) => ReactNode }

interface Field<V extends FieldValues, N extends FieldPath<V>> {
  name: N
  label: string
  help?: Derived<V, ReactNode>
  /** What to say if nothing is typed. Without it the field may stay empty. */
  required?: string
  /** What is wrong with a value that need not be sent to know it; undefined if nothing is. */
  validate?: (value: FieldPathValue<V, N>) => string | undefined
  /** The field's name in the API's `details`, if it is not `name`. */
  wireName?: string
  /** What an error of a part, such as `metadata.plan`, begins with. */
  partName?: (part: string) => string
  /** Whether the form has the field now. */
  shown?: (values: V) => boolean
}

/** A field of a form, as data. `V` is what the form holds; names are paths such as `passkey.rpId`, as on the wire. */
export type FormField<V extends FieldValues> = {
  [N in FieldPath<V>]: Field<V, N> & Kind<V, FieldPathValue<V, N>>
}[FieldPath<V>]

/** Fields as those of a form that holds more than they know of. */
export function widenFields<V extends B, B extends FieldValues>(fields: readonly FormField<B>[]): FormField<V>[] {
  // A path of B is one of V, which TypeScript cannot see while V is open.
  return fields as readonly unknown[] as FormField<V>[]
}

/** The fields that the form has now. */
export function shownFields<V extends FieldValues>(fields: readonly FormField<V>[], values: V): FormField<V>[] {
  return fields.filter(({ shown }) => shown === undefined || shown(values))
}

/** What differs from what the form began with, by top-level name: all that an update sends. */
export function changesOf<V extends FieldValues>(before: V, after: V): Partial<V> {
  const changed = Object.entries(after).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  )
  return Object.fromEntries(changed) as Partial<V>
}

/** The entries of a text that has one per line. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

/** Properties without those whose text is empty: a create request leaves them out. */
export function withoutEmpty<T extends Record<string, string>>(texts: T): Partial<T> {
  return Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== '')) as Partial<T>
}

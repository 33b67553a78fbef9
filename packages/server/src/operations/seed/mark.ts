/** In the metadata of every record that `halfkey seed` creates. It deletes only such records. */
export const MARK = 'halfkey:seed'

/** In the metadata of a sample app: whether it has been filled. */
export const STATE = 'halfkey:seed:state'

/** In the metadata of a sample app: the first day of its invented counters. */
export const HISTORY = 'halfkey:seed:history'

/** In the metadata of a sample webhook: its path on the sample receiver. */
export const PATH = 'halfkey:seed:path'

/** Metadata of a new sample record. */
export const marked = (more: Record<string, string> = {}): Record<string, string> => ({ ...more, [MARK]: '1' })

/** Whether a record was made by a seed. */
export const isMarked = ({ metadata }: { metadata: Record<string, string> }): boolean => metadata[MARK] === '1'

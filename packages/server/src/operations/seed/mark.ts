/** What `halfkey seed` makes carries this in its metadata, and nothing else may be removed by it. */
export const MARK = 'halfkey:seed'

/** In the metadata of an app of the seed's: whether it has been filled. */
export const STATE = 'halfkey:seed:state'

/** In the metadata of an app of the seed's: from which day on it has a history, in the counters, that never happened. */
export const HISTORY = 'halfkey:seed:history'

/** In the metadata of a webhook of the seed's: at which path of the sample receiver it is. */
export const PATH = 'halfkey:seed:path'

/** Metadata of a new sample record. */
export const marked = (more: Record<string, string> = {}): Record<string, string> => ({ ...more, [MARK]: '1' })

/** Whether a record is one of the seed's. */
export const isMarked = ({ metadata }: { metadata: Record<string, string> }): boolean => metadata[MARK] === '1'

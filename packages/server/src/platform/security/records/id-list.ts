/** Ids in one text, in their order, separated by spaces: small, readable, and compared as a whole in SQL. */
export type IdList = string

const idsOf = (list: IdList) => (list === '' ? [] : list.split(' '))

/** Whether an id is in a list. */
export const isListed = (list: IdList, id: string): boolean => ` ${list} `.includes(` ${id} `)

/** The list with an id. A list that nobody has written yet (null) stays so. */
export const listWith = (list: IdList | null, id: string): IdList | null =>
  list === null ? null : [...idsOf(list).filter((one) => one !== id), id].sort().join(' ')

/** The list without some ids. */
export const listWithout = (list: IdList | null, ids: ReadonlySet<string>): IdList | null =>
  list === null
    ? null
    : idsOf(list)
        .filter((id) => !ids.has(id))
        .join(' ')

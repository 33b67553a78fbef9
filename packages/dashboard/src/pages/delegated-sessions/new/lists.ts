/** A list with another element in one place. */
export function replaced<T>(list: readonly T[], index: number, element: T): T[] {
  return list.map((each, place) => (place === index ? element : each))
}

/** A list without one of its elements. */
export function without<T>(list: readonly T[], index: number): T[] {
  return list.filter((_, place) => place !== index)
}

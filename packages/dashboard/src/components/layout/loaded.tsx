import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Card } from './card.tsx'
import { ErrorState, Loading } from './states.tsx'

/** Renders `children` with the query's data; until then a placeholder or the error, in a card if `boxed`. */
export function Loaded<T>({
  query,
  boxed = false,
  children,
}: {
  query: UseQueryResult<T>
  boxed?: boolean
  children: (data: T) => ReactNode
}) {
  if (query.data !== undefined) return children(query.data)
  const state = query.isPending ? <Loading /> : <ErrorState error={query.error} onRetry={() => void query.refetch()} />
  return boxed ? <Card flush>{state}</Card> : state
}

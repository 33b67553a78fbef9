import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'

const keyOf = (sessionId: string) => ['delegate-token', sessionId]

/** Keeps a new session's token in memory. Signing out and switching the tenant clear it. */
export function keepToken(queries: QueryClient, sessionId: string, token: string): void {
  queries.setQueryDefaults(keyOf(sessionId), { gcTime: Number.POSITIVE_INFINITY })
  queries.setQueryData(keyOf(sessionId), token)
}

/** The token of a session, if this page created the session or the token was typed; and its setter. */
export function useToken(sessionId: string): [string, (token: string) => void] {
  const queries = useQueryClient()
  const { data } = useQuery<string>({
    queryKey: keyOf(sessionId),
    queryFn: () => '',
    enabled: false,
    gcTime: Number.POSITIVE_INFINITY,
  })
  return [data ?? '', (token) => keepToken(queries, sessionId, token)]
}

import { isHalfkeyError } from '@halfkey/sdk'
import { QueryClient } from '@tanstack/react-query'

const LIVE_MS = 5_000

/** What was read, by what it is about; emptied when the tenant changes and at sign-out. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // What the server refused it will refuse again.
      retry: (failures, error) => failures < 2 && !(isHalfkeyError(error) && error.status >= 400 && error.status < 500),
    },
  },
})

/** For what changes while one looks: asked for again and again, as long as the page is in front. */
export const LIVE = { refetchInterval: LIVE_MS, refetchIntervalInBackground: false } as const

import { isHalfkeyError } from '@halfkey/sdk'
import { QueryClient } from '@tanstack/react-query'

const LIVE_MS = 5_000

/** The cache of API answers. It is cleared when the tenant changes and at sign-out. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // A request that the server refused (4xx) will be refused again.
      retry: (failures, error) => failures < 2 && !(isHalfkeyError(error) && error.status >= 400 && error.status < 500),
    },
  },
})

/** Query options for data that changes while it is shown: polled as long as the page is visible. */
export const LIVE = { refetchInterval: LIVE_MS, refetchIntervalInBackground: false } as const

import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import '../styles.css'
import { Toasts } from '../components/layout/toast.tsx'
import { queryClient } from '../query-client.ts'
import { onLinkEnd, takeToken } from './portal-api.ts'
import { Ended, PortalPage } from './portal-page.tsx'

const root = createRoot(document.getElementById('root') as HTMLElement)
let links = 0

function render(hasLink: boolean): void {
  // What one link showed is not shown to another.
  queryClient.clear()
  root.render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <QueryClientProvider client={queryClient}>
          <Toasts>{hasLink ? <PortalPage key={links} /> : <Ended />}</Toasts>
        </QueryClientProvider>
      </CSPProvider>
    </StrictMode>,
  )
}

onLinkEnd(() => render(false))
// A new link in the same tab changes only what stands behind `#`, so the page is not loaded again.
addEventListener('hashchange', () => {
  if (!takeToken()) return
  links += 1
  render(true)
})
render(takeToken())

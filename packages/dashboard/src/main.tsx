import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import './styles.css'
import { Toasts } from './components/layout/toast.tsx'
import { queryClient } from './query-client.ts'
import { SessionGate } from './shell/session-gate.tsx'
import { restoreTheme } from './theme.ts'

restoreTheme()
createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queryClient}>
        <Toasts>
          <SessionGate />
        </Toasts>
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
)

import { Toast } from '@base-ui/react/toast'
import { X } from 'lucide-react'
import type { ReactNode } from 'react'

function Shown() {
  const { toasts } = Toast.useToastManager()
  return toasts.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
      className={`flex items-start justify-between gap-3 rounded-control border bg-surface px-4 py-3 text-sm shadow-popup transition-opacity data-ending-style:opacity-0 data-starting-style:opacity-0 ${toast.type === 'error' ? 'border-danger/50' : ''}`}
    >
      <Toast.Content className="min-w-0 [overflow-wrap:anywhere]">
        <Toast.Title className={`font-medium ${toast.type === 'error' ? 'text-danger' : ''}`} render={<p />} />
        <Toast.Description className="text-soft" />
      </Toast.Content>
      <Toast.Close aria-label="Dismiss" className="rounded p-1 text-soft hover:bg-raised">
        <X aria-hidden className="size-4" />
      </Toast.Close>
    </Toast.Root>
  ))
}

/** The region where notices appear. They are announced and disappear by themselves. */
export function Toasts({ children }: { children: ReactNode }) {
  return (
    <Toast.Provider timeout={5_000} limit={3}>
      {children}
      <Toast.Portal>
        <Toast.Viewport className="fixed right-4 bottom-4 z-70 flex w-80 max-w-[calc(100vw-2rem)] flex-col gap-2">
          <Shown />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  )
}

/** Shows a notice: an action succeeded, or failed. */
export function useToast() {
  const { add } = Toast.useToastManager()
  return {
    done: (title: string, description?: string) => void add({ title, description, type: 'done' }),
    failed: (title: string, description?: string) => void add({ title, description, type: 'error', priority: 'high' }),
  }
}

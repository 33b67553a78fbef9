import { useSyncExternalStore } from 'react'

/** `system` follows the device. */
export type Theme = 'system' | 'light' | 'dark'

const STORED = 'halfkey.theme'
const changes = new EventTarget()

function read(): Theme {
  const stored = localStorage.getItem(STORED)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

/** Chooses the colours, for this browser. */
export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(STORED)
  else localStorage.setItem(STORED, theme)
  apply(theme)
  changes.dispatchEvent(new Event('change'))
}

/** Puts on what was chosen before anything is drawn. */
export function restoreTheme(): void {
  apply(read())
}

/** The choice, and again after every change; also when the device changes its mind. */
export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    const device = matchMedia('(prefers-color-scheme: dark)')
    changes.addEventListener('change', listener)
    device.addEventListener('change', listener)
    return () => {
      changes.removeEventListener('change', listener)
      device.removeEventListener('change', listener)
    }
  }, read)
}

/** Whether dark colours are shown now. */
export function useIsDark(): boolean {
  const theme = useTheme()
  return theme === 'dark' || (theme === 'system' && matchMedia('(prefers-color-scheme: dark)').matches)
}

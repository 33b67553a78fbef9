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

/** Sets the colour scheme for this browser. */
export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(STORED)
  else localStorage.setItem(STORED, theme)
  apply(theme)
  changes.dispatchEvent(new Event('change'))
}

/** Applies the stored choice before the first render. */
export function restoreTheme(): void {
  apply(read())
}

function subscribe(listener: () => void): () => void {
  const device = matchMedia('(prefers-color-scheme: dark)')
  changes.addEventListener('change', listener)
  device.addEventListener('change', listener)
  return () => {
    changes.removeEventListener('change', listener)
    device.removeEventListener('change', listener)
  }
}

function isDark(): boolean {
  const theme = read()
  return theme === 'dark' || (theme === 'system' && matchMedia('(prefers-color-scheme: dark)').matches)
}

/** The current choice; renders again after every change. */
export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, read)
}

/** Whether the scheme is dark now. It follows the choice and the device. */
export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, isDark)
}

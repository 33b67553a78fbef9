import { useCallback, useState } from 'react'

/**
 * A dialog about one of many records: `ask` opens it, and what it is about stays while it closes. `ask` is the same
 * function at every drawing.
 */
export function useAsked<T>(): {
  about: T | null
  open: boolean
  ask: (about: T) => void
  onOpenChange: (open: boolean) => void
} {
  const [state, setState] = useState<{ about: T | null; open: boolean }>({ about: null, open: false })
  const ask = useCallback((about: T) => setState({ about, open: true }), [])
  const onOpenChange = useCallback((open: boolean) => setState((before) => ({ ...before, open })), [])
  return { ...state, ask, onOpenChange }
}

import { useCallback, useState } from 'react'

/**
 * The state of a dialog about one of many records. The record stays while the dialog closes, so that its text does not
 * vanish before it does. `show` is the same function at every render, so that table columns may depend on it.
 */
export function useRecordDialog<T>(): {
  record: T | null
  open: boolean
  show: (record: T) => void
  onOpenChange: (open: boolean) => void
} {
  const [state, setState] = useState<{ record: T | null; open: boolean }>({ record: null, open: false })
  const show = useCallback((record: T) => setState({ record, open: true }), [])
  const onOpenChange = useCallback((open: boolean) => setState((before) => ({ ...before, open })), [])
  return { ...state, show, onOpenChange }
}

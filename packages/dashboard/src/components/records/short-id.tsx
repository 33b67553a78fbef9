const TAIL_CHARS = 6

/**
 * An id, shortened in the middle where there is no room: ids that were made together differ only at their ends. All of it
 * on hover, and to assistive technology.
 */
export function ShortId({ id, className = 'max-w-36' }: { id: string; className?: string }) {
  return (
    <code title={id} className={`relative inline-flex min-w-0 align-baseline font-mono text-xs ${className}`}>
      <span className="sr-only select-none">{id}</span>
      <span aria-hidden className="truncate">
        {id.slice(0, -TAIL_CHARS)}
      </span>
      <span aria-hidden>{id.slice(-TAIL_CHARS)}</span>
    </code>
  )
}

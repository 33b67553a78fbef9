import type { ReactNode } from 'react'

/** A card. With a `title` it has a header, with `actions` at its right. */
export function Card({
  title,
  description,
  actions,
  flush = false,
  className = '',
  children,
}: {
  title?: ReactNode
  description?: ReactNode
  actions?: ReactNode
  /** Without padding, for tables. */
  flush?: boolean
  className?: string
  children?: ReactNode
}) {
  return (
    <section className={`min-w-0 rounded-card border bg-surface shadow-card ${className}`}>
      {title === undefined ? null : (
        <header className="flex flex-wrap items-start justify-between gap-3 px-5 pt-4 pb-3 last:pb-4">
          <div className="min-w-0">
            <h2 className="text-base font-semibold">{title}</h2>
            {description === undefined ? null : <p className="mt-0.5 text-sm text-soft">{description}</p>}
          </div>
          {actions === undefined ? null : <div className="flex flex-wrap gap-2">{actions}</div>}
        </header>
      )}
      {children === undefined ? null : (
        <div className={flush ? '' : `px-5 pb-5 ${title === undefined ? 'pt-5' : ''}`}>{children}</div>
      )}
    </section>
  )
}

/** One figure and what it counts. */
export function Figure({ label, value, note }: { label: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="min-w-0 rounded-card border bg-surface px-5 py-4 shadow-card">
      <p className="text-sm text-soft">{label}</p>
      <p className="mt-1 truncate text-2xl font-semibold">{value}</p>
      {note === undefined ? null : <p className="mt-0.5 text-sm text-soft">{note}</p>}
    </div>
  )
}

import type { ReactNode } from 'react'

/** The fields of a record as a grid of names and values. */
export function Details({ children }: { children: ReactNode }) {
  return <dl className="grid gap-x-8 gap-y-3 sm:grid-cols-2 lg:grid-cols-3">{children}</dl>
}

/** One field; a `wide` one takes a whole row. */
export function Detail({ label, wide = false, children }: { label: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={`min-w-0 ${wide ? 'col-span-full' : ''}`}>
      <dt className="text-sm text-soft">{label}</dt>
      <dd className="mt-0.5 min-w-0 [overflow-wrap:anywhere]">{children}</dd>
    </div>
  )
}

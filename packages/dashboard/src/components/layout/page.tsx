import { Link } from '@tanstack/react-router'
import { ChevronLeft } from 'lucide-react'
import { type ReactNode, useEffect } from 'react'

/**
 * A page: its heading, which names the document too and says where one is to assistive technology, what can be done,
 * and its content. `back` leads to the list that it is from.
 */
export function Page({
  title,
  heading,
  description,
  actions,
  back,
  children,
}: {
  title: string
  /** Replaces the title if it has more than text. */
  heading?: ReactNode
  description?: ReactNode
  actions?: ReactNode
  back?: { to: string; label: string }
  children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Halfkey`
  }, [title])
  return (
    <div className="mx-auto flex max-w-6xl flex-col gap-5 px-4 py-6 md:px-8 md:py-8">
      <header className="flex flex-wrap items-end justify-between gap-x-6 gap-y-3">
        <div className="min-w-0">
          {back === undefined ? null : (
            <Link
              to={back.to}
              className="-ml-1 inline-flex min-h-8 items-center gap-0.5 text-sm text-soft hover:text-ink"
            >
              <ChevronLeft aria-hidden className="size-4" />
              {back.label}
            </Link>
          )}
          <h1 className="text-2xl font-semibold tracking-tight [overflow-wrap:anywhere]">{heading ?? title}</h1>
          {description === undefined ? null : <p className="mt-1 max-w-2xl text-soft">{description}</p>}
        </div>
        {actions === undefined ? null : <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

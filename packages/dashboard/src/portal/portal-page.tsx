import { useQuery } from '@tanstack/react-query'
import { ChevronLeft } from 'lucide-react'
import { type ReactNode, useEffect, useState } from 'react'
import { Button } from '../components/controls/button.tsx'
import { Loaded } from '../components/layout/loaded.tsx'
import { DeliveryView } from './delivery-view.tsx'
import { EndpointView } from './endpoint-view.tsx'
import { Endpoints } from './endpoints.tsx'
import { type Portal, readPortal } from './portal-api.ts'
import { Samples } from './samples.tsx'

/** What is shown. There are no addresses for views: a reload needs a new link in any case. */
export type View =
  | { name: 'endpoints' }
  | { name: 'endpoint'; webhookId: string }
  | { name: 'delivery'; webhookId: string; deliveryId: string }

/** Without a link, or with one that has ended: what to do. */
export function Ended() {
  return (
    <main className="mx-auto flex max-w-2xl flex-col gap-3 px-4 py-10 text-center">
      <h1 className="font-medium">Open this page again from where you found it</h1>
      <p className="text-sm text-soft">
        This page opens with a link that works for a short time. The link is not stored, so it ends when you reload the
        page. Go back to the page with the link, and open it again.
      </p>
    </main>
  )
}

function Back({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <Button tone="ghost" onClick={onClick} className="-ml-3.5 self-start">
      <ChevronLeft aria-hidden className="size-4" />
      {label}
    </Button>
  )
}

/** Applies the colour of the app. The server has checked that white text is readable on it. */
function useBranding({ branding }: Portal): void {
  useEffect(() => {
    document.title = `Webhooks · ${branding.name}`
    if (branding.accentColor === null) return
    const { style } = document.documentElement
    style.setProperty('--primary', branding.accentColor)
    style.setProperty('--primary-hover', `color-mix(in srgb, ${branding.accentColor} 88%, black)`)
    style.setProperty('--on-primary', '#ffffff')
  }, [branding])
}

function Views({ portal }: { portal: Portal }) {
  const [view, show] = useState<View>({ name: 'endpoints' })
  useEffect(() => {
    // A view begins at its top, for the eye and for assistive technology.
    if (view.name !== 'endpoints') scrollTo(0, 0)
  }, [view])
  if (view.name === 'delivery')
    return (
      <>
        <Back label="Endpoint" onClick={() => show({ name: 'endpoint', webhookId: view.webhookId })} />
        <DeliveryView {...view} />
      </>
    )
  if (view.name === 'endpoint')
    return (
      <>
        <Back label="All endpoints" onClick={() => show({ name: 'endpoints' })} />
        <EndpointView portal={portal} webhookId={view.webhookId} show={show} />
      </>
    )
  return (
    <>
      <Endpoints portal={portal} show={show} />
      <Samples />
    </>
  )
}

function Frame({ portal, children }: { portal: Portal; children: ReactNode }) {
  useBranding(portal)
  const { branding, subscriber } = portal
  return (
    <main className="mx-auto flex max-w-4xl flex-col gap-5 px-4 py-6 md:px-8">
      <header>
        {branding.logoUrl === null ? null : (
          <img src={branding.logoUrl} alt={branding.name} className="mb-3 max-h-10 max-w-48" />
        )}
        <p className="text-sm text-soft [overflow-wrap:anywhere]">
          {subscriber.name === null ? branding.name : `${branding.name} · ${subscriber.name}`}
        </p>
        <h1 className="text-2xl font-semibold tracking-tight">Webhooks</h1>
        <p className="mt-1 max-w-2xl text-soft">
          Events are sent to your endpoints as signed requests. Failed deliveries are retried.
        </p>
      </header>
      {children}
    </main>
  )
}

/** The portal of the subscriber whose link was opened. */
export function PortalPage() {
  const query = useQuery({ queryKey: ['portal'], queryFn: ({ signal }) => readPortal(signal) })
  return (
    <Loaded query={query}>
      {(portal) => (
        <Frame portal={portal}>
          <Views portal={portal} />
        </Frame>
      )}
    </Loaded>
  )
}

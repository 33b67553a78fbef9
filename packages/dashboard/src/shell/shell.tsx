import { Dialog } from '@base-ui/react/dialog'
import { Menu as BaseMenu } from '@base-ui/react/menu'
import { Link, Outlet, useLocation, useNavigate, useSearch } from '@tanstack/react-router'
import { Check, LogOut, Menu, Monitor, Moon, Search, Sun, X } from 'lucide-react'
import { lazy, Suspense, useEffect, useState } from 'react'
import { allows } from '../api.ts'
import { IconButton } from '../components/controls/button.tsx'
import { Loading } from '../components/layout/states.tsx'
import { useOpenApprovals } from '../pages/approvals/use-open-approvals.ts'
import { setTheme, type Theme, useTheme } from '../theme.ts'
import { Mark } from './mark.tsx'
import { NAVIGATION } from './navigation.ts'
import { useSession } from './session-context.ts'

// Loaded where there is a choice of tenants only: a key has one, and the first load has a size limit.
const Select = lazy(() => import('../components/controls/select.tsx').then((module) => ({ default: module.Select })))
const Palette = lazy(() => import('./palette.tsx').then((module) => ({ default: module.Palette })))

const THEMES: Record<Theme, { label: string; icon: typeof Sun }> = {
  system: { label: 'System', icon: Monitor },
  light: { label: 'Light', icon: Sun },
  dark: { label: 'Dark', icon: Moon },
}

const ITEM =
  'flex min-h-9 cursor-default items-center justify-between gap-6 rounded-md px-2.5 text-sm data-highlighted:bg-raised max-md:min-h-11'

function ThemeMenu() {
  const theme = useTheme()
  const { icon: Icon } = THEMES[theme]
  return (
    <BaseMenu.Root>
      <BaseMenu.Trigger
        aria-label="Theme"
        title="Theme"
        className="inline-flex size-9 items-center justify-center rounded-control text-soft hover:bg-raised hover:text-ink max-md:size-11"
      >
        <Icon aria-hidden className="size-4.5" />
      </BaseMenu.Trigger>
      <BaseMenu.Portal>
        <BaseMenu.Positioner sideOffset={6} align="end" className="z-60">
          <BaseMenu.Popup className="min-w-40 rounded-control border bg-surface p-1 shadow-popup">
            <BaseMenu.RadioGroup value={theme} onValueChange={(next) => setTheme(next as Theme)}>
              {Object.entries(THEMES).map(([name, { label }]) => (
                <BaseMenu.RadioItem key={name} value={name} closeOnClick className={ITEM}>
                  {label}
                  <BaseMenu.RadioItemIndicator>
                    <Check aria-hidden className="size-4" />
                  </BaseMenu.RadioItemIndicator>
                </BaseMenu.RadioItem>
              ))}
            </BaseMenu.RadioGroup>
          </BaseMenu.Popup>
        </BaseMenu.Positioner>
      </BaseMenu.Portal>
    </BaseMenu.Root>
  )
}

/** The greatest count beside a page. */
const SHOWN_MAX = 99

const HERE = { className: 'bg-accent-wash text-accent', 'aria-current': 'page' } as const
const ELSEWHERE = { className: 'text-soft hover:bg-raised hover:text-ink' }

/** How many approvals are open, beside their page. */
function OpenApprovals() {
  const open = useOpenApprovals() ?? 0
  if (open === 0) return null
  return (
    <span className="ml-auto rounded-full bg-warn-wash px-2 text-xs text-warn tabular-nums">
      {open > SHOWN_MAX ? `${SHOWN_MAX}+` : open}
      <span className="sr-only"> open</span>
    </span>
  )
}

function Navigation({ onGo }: { onGo?: () => void }) {
  const { session } = useSession()
  const path = useLocation({ select: ({ pathname }) => pathname })
  return (
    <nav aria-label="Main" className="flex flex-col gap-2.5">
      {NAVIGATION.map((group) => {
        const places = group.places.filter(
          ({ scope, tenantWide }) => allows(session, scope) && (tenantWide !== true || session.appId === null),
        )
        if (places.length === 0) return null
        return (
          <div key={group.label ?? ''} className="flex flex-col gap-0.5">
            {group.label === null ? null : <p className="px-3 pb-1 text-xs font-medium text-soft">{group.label}</p>}
            {places.map(({ to, also, label, icon: Icon }) => (
              <Link
                key={to}
                to={to}
                activeOptions={{ exact: to === '/', includeSearch: false }}
                activeProps={HERE}
                inactiveProps={path === also ? HERE : ELSEWHERE}
                className="flex min-h-8 items-center gap-3 rounded-control px-3 text-sm font-medium max-md:min-h-11"
                onClick={() => onGo?.()}
              >
                <Icon aria-hidden className="size-4.5 flex-none" />
                {label}
                {to === '/approvals' ? <OpenApprovals /> : null}
              </Link>
            ))}
          </div>
        )
      })}
    </nav>
  )
}

/** The tenant shown; a menu if the operator has several. */
function Tenant() {
  const { session } = useSession()
  const navigate = useNavigate()
  if (session.tenants.length < 2)
    return <p className="flex-none truncate px-3 text-sm font-medium">{session.tenant.name}</p>
  return (
    <Suspense fallback={<p className="min-h-9 flex-none truncate px-3 text-sm font-medium">{session.tenant.name}</p>}>
      <Select
        label="Tenant"
        value={session.tenant.id}
        options={session.tenants.map(({ id, name }) => ({ value: id, label: name }))}
        onChange={(tenant) => void navigate({ to: '/', search: { tenant } } as never)}
        className="w-full"
      />
    </Suspense>
  )
}

/** The app shown; a menu if a member has several of the tenant's apps. */
function App() {
  const { session, showApp } = useSession()
  if (session.apps === null || session.apps.length < 2) return null
  return (
    <Suspense fallback={null}>
      <Select
        label="App"
        value={session.appId ?? ''}
        options={session.apps.map(({ id, name }) => ({ value: id, label: name }))}
        onChange={(appId) => void showApp(appId)}
        className="w-full"
      />
    </Suspense>
  )
}

/** Whose session it is. Members have a page for their account. */
function Name() {
  const { session } = useSession()
  const { member } = session
  if (member === null)
    return <p className="truncate font-medium">{session.via === 'link' ? 'Operator' : session.keyName}</p>
  return (
    <p className="flex min-w-0 gap-1.5">
      <Link to="/account" className="truncate font-medium hover:underline">
        <bdi>{member.name}</bdi>
      </Link>
      <span className="flex-none text-soft">{member.role}</span>
    </p>
  )
}

function Who() {
  const { session, leave } = useSession()
  return (
    <div className="flex items-center justify-between gap-2 border-t px-3 pt-3">
      <div className="min-w-0 text-sm">
        <Name />
        <p className="truncate text-soft">
          {session.environment === 'development' ? 'Development' : 'Production'} · {session.version}
        </p>
      </div>
      <IconButton label="Sign out" onClick={() => void leave()}>
        <LogOut aria-hidden className="size-4.5" />
      </IconButton>
    </div>
  )
}

function PhoneMenu() {
  const [open, setOpen] = useState(false)
  return (
    <Dialog.Root open={open} onOpenChange={(next) => setOpen(next)}>
      <Dialog.Trigger
        aria-label="Menu"
        className="inline-flex size-11 items-center justify-center rounded-control text-soft hover:bg-raised lg:hidden"
      >
        <Menu aria-hidden className="size-5" />
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-[#000]/45" />
        <Dialog.Popup className="fixed inset-y-0 left-0 z-50 flex w-72 max-w-[85vw] flex-col gap-4 overflow-y-auto border-r bg-surface p-3 pt-4">
          <div className="flex items-center justify-between">
            <Dialog.Title className="px-3 text-base font-semibold">Halfkey</Dialog.Title>
            <Dialog.Close
              aria-label="Close"
              className="inline-flex size-11 items-center justify-center rounded-control text-soft"
            >
              <X aria-hidden className="size-5" />
            </Dialog.Close>
          </div>
          <Tenant />
          <App />
          <Navigation onGo={() => setOpen(false)} />
          <div className="mt-auto">
            <Who />
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

/** ⌘K, or Ctrl+K, from anywhere. */
function usePaletteKey(open: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.metaKey || event.ctrlKey) || event.altKey) return
      event.preventDefault()
      open()
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [open])
}

/** Announces the new page to screen readers after a navigation. */
function Announcer() {
  const { pathname } = useLocation()
  const [said, setSaid] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setSaid(pathname === '' ? '' : document.title), 300)
    return () => clearTimeout(timer)
  }, [pathname])
  return (
    <p aria-live="polite" className="sr-only">
      {said}
    </p>
  )
}

/**
 * Whether the URL names another tenant than the one shown, as after a step back in the history. If so, the page
 * switches to that tenant and renders nothing meanwhile.
 */
function useTenantOfAddress(): boolean {
  const { session, showTenant } = useSession()
  const { tenant } = useSearch({ strict: false }) as { tenant?: string }
  const elsewhere = tenant !== undefined && tenant !== session.tenant.id
  useEffect(() => {
    if (elsewhere) void showTenant(tenant)
  }, [elsewhere, tenant, showTenant])
  return elsewhere
}

/** The layout around every page. */
export function Shell() {
  const elsewhere = useTenantOfAddress()
  return elsewhere ? <Loading /> : <Frame />
}

function Frame() {
  const [palette, setPalette] = useState(false)
  const [openPalette] = useState(() => () => setPalette(true))
  usePaletteKey(openPalette)
  return (
    <div className="lg:grid lg:grid-cols-[15rem_1fr]">
      <a
        href="#content"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-70 focus:rounded-control focus:bg-surface focus:px-4 focus:py-2"
      >
        Skip to content
      </a>
      <aside className="sticky top-0 hidden h-dvh flex-col gap-3 border-r bg-surface p-3 pt-4 lg:flex">
        <div className="flex items-center gap-2.5 px-3">
          <Mark />
          <span className="text-base font-semibold">Halfkey</span>
        </div>
        <Tenant />
        <App />
        <div className="-mx-3 min-h-0 flex-1 overflow-y-auto px-3">
          <Navigation />
        </div>
        <Who />
      </aside>
      <div className="min-w-0">
        <header className="sticky top-0 z-30 flex h-14 items-center justify-between gap-2 border-b bg-ground/95 px-3 backdrop-blur md:px-8">
          <div className="flex items-center gap-1">
            <PhoneMenu />
            <button
              type="button"
              onClick={openPalette}
              className="flex min-h-9 items-center gap-2 rounded-control border bg-surface px-3 text-sm text-soft hover:text-ink max-md:min-h-11"
            >
              <Search aria-hidden className="size-4" />
              Search <kbd className="ml-6 hidden rounded border bg-raised px-1.5 font-sans text-xs md:inline">⌘K</kbd>
            </button>
          </div>
          <ThemeMenu />
        </header>
        <main id="content" tabIndex={-1} className="outline-none">
          <Outlet />
        </main>
      </div>
      {palette ? (
        <Suspense fallback={null}>
          <Palette onClose={() => setPalette(false)} />
        </Suspense>
      ) : null}
      <Announcer />
    </div>
  )
}

import { Dialog } from '@base-ui/react/dialog'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Command } from 'cmdk'
import { CornerDownLeft, LogOut, Moon, Sun, UserRound } from 'lucide-react'
import { type ReactNode, useDeferredValue, useState } from 'react'
import { allows, api } from '../api.ts'
import { setTheme, type Theme } from '../theme.ts'
import { findId, isRecordId } from './find-id.ts'
import { NAVIGATION } from './navigation.ts'
import { useSession } from './session-context.ts'

const USERS_SHOWN = 5
const GROUP =
  '[&_[cmdk-group-heading]]:px-2.5 [&_[cmdk-group-heading]]:py-1.5 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:text-soft'

function Item({
  value,
  words,
  onSelect,
  children,
}: {
  value: string
  words?: string
  onSelect: () => void
  children: ReactNode
}) {
  return (
    <Command.Item
      value={value}
      {...(words === undefined ? {} : { keywords: words.split(' ') })}
      onSelect={onSelect}
      className="flex min-h-10 cursor-default items-center gap-3 rounded-md px-2.5 text-sm data-[selected=true]:bg-raised max-md:min-h-11"
    >
      {children}
    </Command.Item>
  )
}

/** The command palette: opens any page, record or user, and runs global commands. */
export function Palette({ onClose }: { onClose: () => void }) {
  const { session, leave } = useSession()
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const sought = useDeferredValue(text.trim())
  const id = text.trim()
  const users = useQuery({
    queryKey: ['users', 'palette', sought],
    queryFn: () => api.users.list({ search: sought, pageSize: USERS_SHOWN }),
    enabled: sought.length >= 2 && allows(session, 'users:read'),
  })
  const record = useQuery({
    queryKey: ['find', id],
    queryFn: ({ signal }) => findId(id, signal),
    enabled: isRecordId(id),
  })
  const path = record.data?.path ?? null
  const go = (to: string) => {
    const [pathname, search] = to.split('?')
    onClose()
    void navigate({ to: pathname, search: Object.fromEntries(new URLSearchParams(search)) } as never)
  }
  const colours = (theme: Theme) => {
    setTheme(theme)
    onClose()
  }
  const places = NAVIGATION.flatMap((group) => group.places).filter(({ scope }) => allows(session, scope))
  return (
    <Dialog.Root open onOpenChange={(open) => (open ? undefined : onClose())}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-[#000]/45" />
        <Dialog.Popup className="fixed top-[12vh] left-1/2 z-50 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 overflow-hidden rounded-card border bg-surface shadow-popup">
          <Dialog.Title className="sr-only">Search</Dialog.Title>
          <Command label="Search" loop>
            <Command.Input
              value={text}
              onValueChange={setText}
              placeholder="Search for a page, a user or an id…"
              className="w-full border-b bg-transparent px-4 py-3.5 text-base outline-none placeholder:text-soft"
            />
            {isRecordId(id) && path === null ? (
              <p role="status" className="px-5 py-6 text-center text-sm text-soft [overflow-wrap:anywhere]">
                {record.data?.message ?? `Looking for ${id}…`}
              </p>
            ) : null}
            <Command.List className="max-h-[50vh] overflow-y-auto p-2">
              {isRecordId(id) ? null : (
                <Command.Empty className="px-3 py-6 text-center text-sm text-soft">No results.</Command.Empty>
              )}
              {path === null ? null : (
                <Item value={id} onSelect={() => go(path)}>
                  <CornerDownLeft aria-hidden className="size-4 text-soft" />
                  Open <code className="truncate font-mono text-xs">{id}</code>
                </Item>
              )}
              {(users.data?.data.length ?? 0) > 0 ? (
                <Command.Group heading="Users" className={GROUP}>
                  {users.data?.data.map((user) => (
                    <Item
                      key={user.id}
                      value={`${user.id} ${user.email} ${user.name}`}
                      words={sought}
                      onSelect={() => go(`/users/${user.id}`)}
                    >
                      <UserRound aria-hidden className="size-4 flex-none text-soft" />
                      <span className="truncate">{user.email ?? user.name ?? user.id}</span>
                    </Item>
                  ))}
                </Command.Group>
              ) : null}
              <Command.Group heading="Pages" className={GROUP}>
                {places.map(({ to, label, words, icon: Icon }) => (
                  <Item key={to} value={label} words={words} onSelect={() => go(to)}>
                    <Icon aria-hidden className="size-4 text-soft" />
                    {label}
                  </Item>
                ))}
              </Command.Group>
              <Command.Group heading="Actions" className={GROUP}>
                <Item value="Light theme" words="colours" onSelect={() => colours('light')}>
                  <Sun aria-hidden className="size-4 text-soft" />
                  Light theme{' '}
                </Item>
                <Item value="Dark theme" words="colours" onSelect={() => colours('dark')}>
                  <Moon aria-hidden className="size-4 text-soft" />
                  Dark theme{' '}
                </Item>
                <Item value="Sign out" words="log out leave" onSelect={() => void leave()}>
                  <LogOut aria-hidden className="size-4 text-soft" />
                  Sign out
                </Item>
              </Command.Group>
            </Command.List>
          </Command>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

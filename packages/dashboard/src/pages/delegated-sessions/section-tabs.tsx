import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Tabs } from '../../components/layout/tabs.tsx'

const PATHS = { sessions: '/delegated-sessions', denials: '/denials' } as const

/** The two lists of the section: its sessions, and what was refused to them. Each has its own address. */
export function SectionTabs({ shown, children }: { shown: keyof typeof PATHS; children: ReactNode }) {
  const navigate = useNavigate()
  const content = (tab: keyof typeof PATHS) => (tab === shown ? children : null)
  return (
    <Tabs
      label="Delegated sessions"
      value={shown}
      onChange={(tab) => void navigate({ to: PATHS[tab] })}
      tabs={[
        { value: 'sessions', label: 'Sessions', content: content('sessions') },
        { value: 'denials', label: 'Refused attempts', content: content('denials') },
      ]}
    />
  )
}

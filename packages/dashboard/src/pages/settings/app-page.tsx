import type { App } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { ErrorState, Loading } from '../../components/layout/states.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { CodeBlock, CopyableId } from '../../components/records/copy.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useSession } from '../../shell/session-context.ts'
import { AppForm } from './app-form.tsx'

function Facts({ app }: { app: App }) {
  const { session } = useSession()
  const signInPage = `${session.publicUrl}/signin?app=${app.id}`
  return (
    <Card>
      <div className="flex flex-col gap-4">
        <Details>
          <Detail label="Id">
            <CopyableId id={app.id} what="app id" />
          </Detail>
          <Detail label="Created">
            <RelativeTime at={app.createdAt} />
          </Detail>
          <Detail label="Changed">
            <RelativeTime at={app.updatedAt} />
          </Detail>
        </Details>
        <div>
          <p className="mb-1.5 text-sm text-soft">
            The hosted sign-in page:{' '}
            <a href={signInPage} target="_blank" rel="noreferrer" className="text-accent underline">
              open it
            </a>
          </p>
          <CodeBlock label="sign-in page" text={signInPage} />
        </div>
      </div>
    </Card>
  )
}

function Removal({ app, onClose }: { app: App; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const remove = async () => {
    await api.apps.delete(app.id, { force: true })
    client.removeQueries({ queryKey: ['apps', app.id] })
    await client.invalidateQueries({ queryKey: ['apps'] })
    await navigate({ to: '/settings' })
  }
  return (
    <ConfirmDialog
      open
      onOpenChange={onClose}
      title="Delete this app?"
      action="Delete app and users"
      typed={app.name}
      onConfirm={remove}
    >
      <p>Its users, their wallets, sessions and passkeys go with it, and its keys stop working at once.</p>
      <p>What users alone could sign for stays theirs; what the service signs for is lost. This cannot be undone.</p>
    </ConfirmDialog>
  )
}

/** An app and how people sign in to it. */
export function AppPage() {
  const { appId } = useParams({ strict: false }) as { appId: string }
  const { session } = useSession()
  const [removing, setRemoving] = useState(false)
  const query = useQuery({ queryKey: ['apps', appId], queryFn: ({ signal }) => api.apps.get(appId, { signal }) })
  const app = query.data
  const isDefault = appId === session.defaultAppId
  const mayWrite = allows(session, 'apps:write')
  return (
    <Page
      title={app?.name ?? 'App'}
      heading={
        app === undefined ? undefined : (
          <span className="inline-flex flex-wrap items-center gap-3">
            {app.name}
            {isDefault ? <Badge>default</Badge> : null}
          </span>
        )
      }
      back={{ to: '/settings', label: 'Settings' }}
      actions={
        app !== undefined && mayWrite && session.appId === null && !isDefault ? (
          <Button onClick={() => setRemoving(true)}>Delete</Button>
        ) : undefined
      }
    >
      {query.isPending ? <Loading /> : null}
      {query.isError && app === undefined ? (
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      ) : null}
      {app === undefined ? null : (
        <>
          <Facts app={app} />
          <AppForm key={app.updatedAt} app={app} readOnly={!mayWrite} />
        </>
      )}
      {removing && app !== undefined ? <Removal app={app} onClose={() => setRemoving(false)} /> : null}
    </Page>
  )
}

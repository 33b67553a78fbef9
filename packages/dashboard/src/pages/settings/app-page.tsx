import type { App } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { allows, api, readPin } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { CodeBlock } from '../../components/records/copy.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { useSession } from '../../shell/session-context.ts'
import { AppForm } from './app-form.tsx'
import { LogoCard } from './logo-card.tsx'

function Facts({ app }: { app: App }) {
  const { session } = useSession()
  const signInPage = `${session.publicUrl}/signin?app=${app.id}`
  return (
    <Card>
      <div className="flex flex-col gap-4">
        <Details>
          <IdDetail label="Id" id={app.id} what="app id" />
          <TimeDetail label="Created" at={app.createdAt} />
          <TimeDetail label="Changed" at={app.updatedAt} />
        </Details>
        <div>
          <p className="mb-1.5 text-sm text-soft">
            Hosted sign-in page:{' '}
            <a href={signInPage} target="_blank" rel="noreferrer" className="text-accent underline">
              {' '}
              open{' '}
            </a>
          </p>
          <CodeBlock label="sign-in page" text={signInPage} />
        </div>
        <div>
          <p className="mb-1.5 text-sm text-soft">Issuer of ID tokens, for services that verify who a user is:</p>
          <CodeBlock label="issuer" text={app.openid.issuer} />
        </div>
        {app.agents.connect ? (
          <div>
            <p className="mb-1.5 text-sm text-soft">Address for agents (MCP), which users give to their agent:</p>
            <CodeBlock label="address for agents" text={`${session.publicUrl}/mcp/${app.id}`} />
          </div>
        ) : null}
      </div>
    </Card>
  )
}

function Providers({ app }: { app: App }) {
  return (
    <Card
      title="Sign-in providers"
      description="Users sign in with their account at Google, Apple, Microsoft, GitHub, or another provider."
      actions={
        <Link
          to="/settings/apps/$appId/providers"
          params={{ appId: app.id } as never}
          className="text-sm text-accent hover:underline"
        >
          Sign-in providers
        </Link>
      }
    />
  )
}

function OwnLogin({ app }: { app: App }) {
  return (
    <Card
      title="Your own login"
      description="Users sign in with tokens of issuers that the app trusts, such as Auth0 or Keycloak."
      actions={
        <Link
          to="/settings/apps/$appId/issuers"
          params={{ appId: app.id } as never}
          className="text-sm text-accent hover:underline"
        >
          Trusted issuers
        </Link>
      }
    />
  )
}

/** By what clients recognise this installation before they send key shares. */
function ServicePin() {
  const query = useQuery({ queryKey: ['pin'], queryFn: ({ signal }) => readPin(signal) })
  return (
    <Card title="Service pin">
      <Loaded query={query}>
        {(pin) => (
          <div className="flex flex-col gap-3">
            <p className="text-sm text-soft">
              Give it to the SDK as <code>pin</code>. A client with a pin sends key shares only to this installation.
              Compare it with <code>halfkey keys pin</code> on the machine of the service: a relay in front of this page
              could show another one.
            </p>
            <CodeBlock label="service pin" text={pin} />
          </div>
        )}
      </Loaded>
    </Card>
  )
}

/** The sign-in page as users see it, with what was saved. Nothing in it can be pressed. */
function Preview({ app }: { app: App }) {
  return (
    <Card
      title="Preview of the sign-in page"
      description="With the branding, the logo and the ways to sign in that are saved."
    >
      <iframe
        key={app.updatedAt}
        src={`/signin/preview?app=${app.id}`}
        title="Preview of the sign-in page"
        sandbox="allow-scripts allow-same-origin"
        referrerPolicy="no-referrer"
        loading="lazy"
        tabIndex={-1}
        className="h-160 w-full rounded-control border border-line"
      />
    </Card>
  )
}

function DeleteApp({ app }: { app: App }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const remove = async () => {
    await api.apps.delete(app.id, { force: true })
    client.removeQueries({ queryKey: ['apps', app.id] })
    await client.invalidateQueries({ queryKey: ['apps'] })
    await navigate({ to: '/settings' })
  }
  return (
    <ConfirmButton
      label="Delete"
      title="Delete this app?"
      action="Delete app and users"
      typed={app.name}
      onConfirm={remove}
    >
      <p>
        This deletes all users of the app with their wallets, sessions and passkeys. The API keys of the app stop
        working immediately.
      </p>
      <p>
        Users keep access to wallets that only they can sign for. Wallets that Halfkey signs for are lost. This cannot
        be undone.
      </p>
    </ConfirmButton>
  )
}

/** An app and how people sign in to it. */
export function AppPage() {
  const { appId } = useParams({ strict: false }) as { appId: string }
  const { session } = useSession()
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
        app !== undefined && mayWrite && session.appId === null && !isDefault ? <DeleteApp app={app} /> : undefined
      }
    >
      <Loaded query={query}>
        {(loaded) => (
          <>
            <Facts app={loaded} />
            <Providers app={loaded} />
            <OwnLogin app={loaded} />
            <ServicePin />
            <LogoCard app={loaded} readOnly={!mayWrite} />
            <Preview app={loaded} />
            <AppForm key={loaded.updatedAt} app={loaded} readOnly={!mayWrite} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

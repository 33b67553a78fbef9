import type { Webhook } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { ChevronRight } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Form } from '../../../components/form/form.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { ConfirmButton } from '../../../components/layout/confirm-button.tsx'
import { Detail, Details } from '../../../components/layout/details.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'

type Change = Parameters<typeof api.webhooks.update>[1]

/** Changes the webhook, says so, and shows it again. */
function useChange(webhook: Webhook): (change: Change, said: string) => Promise<void> {
  const queryClient = useQueryClient()
  const { done } = useToast()
  return async (change, said) => {
    await api.webhooks.update(webhook.id, change)
    done(said)
    await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
  }
}

function Section({ title, description, children }: { title: string; description: string; children: ReactNode }) {
  return (
    <section className="flex min-w-0 flex-col gap-3 border-t pt-4">
      <div>
        <h3 className="text-sm font-medium">{title}</h3>
        <p className="mt-0.5 text-sm text-soft">{description}</p>
      </div>
      {children}
    </section>
  )
}

const ending = (last4: string | null) => (last4 === null ? 'hidden' : `ends in ${last4}`)

function Remove({ what, onConfirm, children }: { what: string; onConfirm: () => Promise<void>; children: ReactNode }) {
  return (
    <div>
      <ConfirmButton label={`Remove ${what}`} title={`Remove ${what}`} action="Remove" onConfirm={onConfirm}>
        <p>{children}</p>
      </ConfirmButton>
    </div>
  )
}

function Headers({ webhook }: { webhook: Webhook }) {
  const change = useChange(webhook)
  return (
    <Section
      title="Headers"
      description="Every delivery carries them. Values are encrypted and never shown again. A name that exists is replaced."
    >
      {webhook.headers.length === 0 ? null : (
        <ul className="flex max-w-2xl flex-col gap-1.5" aria-label="Headers">
          {webhook.headers.map(({ name, valueLast4 }) => (
            <li key={name} className="flex flex-wrap items-center justify-between gap-2">
              <span className="min-w-0 text-sm [overflow-wrap:anywhere]">
                <code className="font-mono">{name}</code> <span className="text-soft">{ending(valueLast4)}</span>
              </span>
              <Remove what={name} onConfirm={() => change({ headers: { [name]: null } }, 'Header removed')}>
                Deliveries will no longer carry this header. Its value is deleted.
              </Remove>
            </li>
          ))}
        </ul>
      )}
      <Form
        // Empty again after each header.
        key={webhook.updatedAt}
        fields={[
          {
            name: 'name',
            label: 'Header name',
            required: 'Enter a name, for example X-Api-Key.',
            input: { spellCheck: false },
          },
          {
            name: 'value',
            label: 'Header value',
            wireName: 'headers',
            required: 'Enter a value.',
            input: { type: 'password' },
          },
        ]}
        values={{ name: '', value: '' }}
        action="Save header"
        className="max-w-2xl"
        onSubmit={({ name, value }) => change({ headers: { [name.trim()]: value } }, 'Header saved')}
      />
    </Section>
  )
}

function OAuth({ webhook }: { webhook: Webhook }) {
  const change = useChange(webhook)
  const { oauth } = webhook
  const { tokenUrl = '', clientId = '', scope, audience } = oauth ?? {}
  return (
    <Section
      title="Access token (OAuth 2.0)"
      description="Halfkey gets a token with these client credentials and sends it in the Authorization header."
    >
      <Form
        key={webhook.updatedAt}
        fields={[
          {
            name: 'oauth.tokenUrl',
            label: 'Token URL',
            required: 'Enter the URL of the token endpoint.',
            input: { inputMode: 'url', placeholder: 'https://login.example.com/oauth/token', spellCheck: false },
          },
          {
            name: 'oauth.clientId',
            label: 'Client id',
            required: 'Enter the client id.',
            input: { spellCheck: false },
          },
          {
            name: 'oauth.clientSecret',
            label: 'Client secret',
            required: 'Enter the client secret. It is needed for every change.',
            help: oauth === null ? '' : `The stored secret: ${ending(oauth.clientSecretLast4)}.`,
            input: { type: 'password' },
          },
          { name: 'oauth.scope', label: 'Scope', help: 'Optional.', input: { spellCheck: false } },
          { name: 'oauth.audience', label: 'Audience', help: 'Optional.', input: { spellCheck: false } },
        ]}
        values={{ oauth: { tokenUrl, clientId, clientSecret: '', scope: scope ?? '', audience: audience ?? '' } }}
        action="Save client"
        className="max-w-2xl"
        onSubmit={({ oauth: typed }) =>
          change(
            { oauth: { ...typed, scope: typed.scope.trim() || null, audience: typed.audience.trim() || null } },
            'OAuth client saved',
          )
        }
      />
      {oauth === null ? null : (
        <Remove what="the OAuth client" onConfirm={() => change({ oauth: null }, 'OAuth client removed')}>
          Deliveries will have no access token. The client secret is deleted.
        </Remove>
      )}
    </Section>
  )
}

function ClientCertificate({ webhook }: { webhook: Webhook }) {
  const change = useChange(webhook)
  const { clientCertificate } = webhook
  return (
    <Section
      title="Client certificate (mutual TLS)"
      description="Halfkey shows it to an endpoint that asks for one. The URL must use https."
    >
      {clientCertificate === null ? null : (
        <Details>
          <Detail label="Subject">{clientCertificate.subject}</Detail>
          <Detail label="Expires">
            <RelativeTime at={clientCertificate.expiresAt} />
          </Detail>
          <Detail label="SHA-256 fingerprint" wide>
            <code className="font-mono text-xs">{clientCertificate.fingerprint}</code>
          </Detail>
        </Details>
      )}
      <Form
        key={webhook.updatedAt}
        fields={[
          {
            name: 'clientCertificate.certificate',
            label: 'Certificate',
            kind: 'code',
            required: 'Paste the certificate as PEM text.',
            help: 'PEM, with its chain below it, if it has one.',
          },
          {
            name: 'clientCertificate.privateKey',
            label: 'Private key',
            kind: 'code',
            required: 'Paste the private key as PEM text.',
            help: 'PEM, without a password. It is encrypted and never shown again.',
          },
        ]}
        values={{ clientCertificate: { certificate: '', privateKey: '' } }}
        action={clientCertificate === null ? 'Save certificate' : 'Replace certificate'}
        className="max-w-2xl"
        onSubmit={(typed) => change(typed, 'Client certificate saved')}
      />
      {clientCertificate === null ? null : (
        <Remove what="the certificate" onConfirm={() => change({ clientCertificate: null }, 'Certificate removed')}>
          Halfkey will show no certificate. The private key is deleted.
        </Remove>
      )}
    </Section>
  )
}

/** What an endpoint behind a gateway asks for beside the signature. Closed at first: few webhooks need it. */
export function AdvancedCard({ webhook }: { webhook: Webhook }) {
  const [open, setOpen] = useState(false)
  const { headers, oauth, clientCertificate } = webhook
  const used = [
    headers.length === 0 ? [] : [headers.length === 1 ? '1 header' : `${headers.length} headers`],
    oauth === null ? [] : ['OAuth'],
    clientCertificate === null ? [] : ['client certificate'],
  ].flat()
  return (
    <Card
      title="Advanced"
      description={used.length === 0 ? 'Headers, OAuth and a client certificate.' : `In use: ${used.join(', ')}.`}
      actions={
        <Button aria-expanded={open} onClick={() => setOpen(!open)}>
          <ChevronRight aria-hidden className={`size-4 transition-transform ${open ? 'rotate-90' : ''}`} />
          {open ? 'Hide' : 'Show'}
        </Button>
      }
    >
      {open ? (
        <div className="flex min-w-0 flex-col gap-6">
          <Headers webhook={webhook} />
          <OAuth webhook={webhook} />
          <ClientCertificate webhook={webhook} />
        </div>
      ) : undefined}
    </Card>
  )
}

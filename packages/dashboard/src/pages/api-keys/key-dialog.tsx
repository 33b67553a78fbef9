import type { ApiKey } from '@halfkey/sdk'
import { api } from '../../api.ts'
import { Detail } from '../../components/layout/details.tsx'
import { UrlDialog } from '../../components/layout/url-dialog.tsx'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { MetadataList } from '../../components/records/metadata-list.tsx'
import { AppDetail, IdDetail, TimeDetail } from '../../components/records/record-details.tsx'

function Words({ words, none }: { words: readonly string[]; none: string }) {
  if (words.length === 0) return <>{none}</>
  return (
    <span className="flex flex-wrap gap-1">
      {words.map((word) => (
        <Badge key={word}>{word}</Badge>
      ))}
    </span>
  )
}

function Fields({ apiKey }: { apiKey: ApiKey }) {
  return (
    <dl className="grid gap-x-8 gap-y-3 sm:grid-cols-2">
      <Detail label="Name" wide>
        <bdi>{apiKey.name}</bdi>
      </Detail>
      <Detail label="Key">
        <code className="font-mono text-[0.8125rem]">
          {apiKey.prefix}…{apiKey.last4}
        </code>
      </Detail>
      <IdDetail label="Id" id={apiKey.id} what="key id" />
      <Detail label="Type">{apiKey.type}</Detail>
      <Detail label="Status">
        <StatusBadge status={apiKey.status} />
      </Detail>
      <Detail label="Scopes" wide>
        <Words words={apiKey.scopes} none="Browser access for the signed-in user" />
      </Detail>
      <Detail label="Allowed IP addresses" wide>
        <Words words={apiKey.allowedIps} none="All addresses" />
      </Detail>
      {apiKey.appId === null ? <Detail label="App">All apps</Detail> : <AppDetail appId={apiKey.appId} />}
      <TimeDetail label="Expires" at={apiKey.expiresAt} none="Never" />
      <TimeDetail label="Last used" at={apiKey.lastUsedAt} none="Never" />
      <TimeDetail label="Created" at={apiKey.createdAt} />
      <Detail label="Metadata" wide>
        <MetadataList metadata={apiKey.metadata} />
      </Detail>
    </dl>
  )
}

/** Shows the key that the URL names, without its value. */
export function KeyDialog() {
  return (
    <UrlDialog name="key" title="API key" resource="api-keys" read={(id, options) => api.apiKeys.get(id, options)}>
      {(apiKey) => <Fields apiKey={apiKey} />}
    </UrlDialog>
  )
}

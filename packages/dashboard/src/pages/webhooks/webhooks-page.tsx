import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function WebhooksPage() {
  return <Page title="WebhooksPage">{null}</Page>
}

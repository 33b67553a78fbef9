import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function WebhookPage() {
  return <Page title="WebhookPage">{null}</Page>
}

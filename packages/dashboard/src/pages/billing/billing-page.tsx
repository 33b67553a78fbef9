import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function BillingPage() {
  return <Page title="BillingPage">{null}</Page>
}

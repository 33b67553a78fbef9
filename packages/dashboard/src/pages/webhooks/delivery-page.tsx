import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function DeliveryPage() {
  return <Page title="DeliveryPage">{null}</Page>
}

import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function EventsPage() {
  return <Page title="EventsPage">{null}</Page>
}

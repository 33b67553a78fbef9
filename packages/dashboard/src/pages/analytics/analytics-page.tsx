import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function AnalyticsPage() {
  return <Page title="AnalyticsPage">{null}</Page>
}

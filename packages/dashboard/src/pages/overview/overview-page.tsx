import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function OverviewPage() {
  return <Page title="OverviewPage">{null}</Page>
}

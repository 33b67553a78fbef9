import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function AppPage() {
  return <Page title="AppPage">{null}</Page>
}

import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function DelegatedSessionsPage() {
  return <Page title="DelegatedSessionsPage">{null}</Page>
}

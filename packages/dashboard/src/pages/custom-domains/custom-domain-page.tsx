import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function CustomDomainPage() {
  return <Page title="CustomDomainPage">{null}</Page>
}

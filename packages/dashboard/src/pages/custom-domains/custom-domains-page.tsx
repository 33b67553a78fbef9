import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function CustomDomainsPage() {
  return <Page title="CustomDomainsPage">{null}</Page>
}

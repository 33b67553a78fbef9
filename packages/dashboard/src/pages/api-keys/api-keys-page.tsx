import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function ApiKeysPage() {
  return <Page title="ApiKeysPage">{null}</Page>
}

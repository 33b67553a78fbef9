import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function WalletsPage() {
  return <Page title="WalletsPage">{null}</Page>
}

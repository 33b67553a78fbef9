import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function WalletPage() {
  return <Page title="WalletPage">{null}</Page>
}

import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function TransactionPage() {
  return <Page title="TransactionPage">{null}</Page>
}

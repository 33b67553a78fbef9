import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function TransactionsPage() {
  return <Page title="TransactionsPage">{null}</Page>
}

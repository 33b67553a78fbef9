import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function DelegatedSessionPage() {
  return <Page title="DelegatedSessionPage">{null}</Page>
}

import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function NewDelegatedSessionPage() {
  return <Page title="NewDelegatedSessionPage">{null}</Page>
}

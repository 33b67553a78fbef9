import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function UserPage() {
  return <Page title="UserPage">{null}</Page>
}

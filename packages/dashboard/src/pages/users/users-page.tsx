import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function UsersPage() {
  return <Page title="UsersPage">{null}</Page>
}

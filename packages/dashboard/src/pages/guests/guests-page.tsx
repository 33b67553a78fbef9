import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function GuestsPage() {
  return <Page title="GuestsPage">{null}</Page>
}

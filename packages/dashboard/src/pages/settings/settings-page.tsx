import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function SettingsPage() {
  return <Page title="SettingsPage">{null}</Page>
}

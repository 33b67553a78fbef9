import { Page } from '../../components/page.tsx'

/** Not built yet. */
export function AuditLogPage() {
  return <Page title="AuditLogPage">{null}</Page>
}

// What tests of commands that call a running service have in common.
import type { Service, Tenant } from '../../../test/harness/harness.ts'
import { ServiceProcess } from '../../../test/harness/service-process.ts'

/** The command line as a process, with a tenant's key. */
export function halfkey(
  service: Service,
  tenant: Pick<Tenant, 'key'>,
  args: string[],
  env: Record<string, string> = {},
): ServiceProcess {
  const ofTenant = { HALFKEY_URL: service.url, HALFKEY_KEY: tenant.key }
  return new ServiceProcess({ cwd: service.dataDir, args, env: { ...ofTenant, ...env } })
}

import { createLink, LINK_MINUTES } from '../../dashboard/link.ts'
import { signOutEveryone } from '../../dashboard/service.ts'
import { counted, defineCommand, findTenant, withDeps } from '../command.ts'

/** `halfkey dashboard link` */
export const dashboardLink = defineCommand({
  name: 'dashboard link',
  summary: 'Print a link that signs in to the dashboard once',
  details: `The link starts with HALFKEY_PUBLIC_URL and is valid for ${LINK_MINUTES} minutes. The first person who opens it can do everything in the dashboard.`,
  options: (command) => command.option('--tenant <id>', 'only this tenant (default: all tenants)'),
  async run({ tenant }, context) {
    const { url, expiresAt, tenantId } = await withDeps(context, async (deps) => {
      const tenantId = tenant === undefined ? null : await findTenant(deps, tenant)
      return { ...(await createLink(deps, tenantId)), tenantId }
    })
    const reach = tenantId === null ? 'every tenant' : `tenant ${tenantId}`
    return {
      data: { url, tenantId, expiresAt: expiresAt.toISOString() },
      lines: [url, `It signs in once, within ${LINK_MINUTES} minutes, to ${reach}.`],
    }
  },
})

/** `halfkey dashboard sign-out-everyone` */
export const dashboardSignOutEveryone = defineCommand({
  name: 'dashboard sign-out-everyone',
  summary: 'End every dashboard session and every unused link, of all tenants',
  async run(_, context) {
    const { sessions, links } = await withDeps(context, signOutEveryone)
    return {
      data: { sessions, links },
      lines: [`Ended: ${counted(sessions, 'session')}, ${counted(links, 'unused link')}.`],
    }
  },
})

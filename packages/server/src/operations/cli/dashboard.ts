import { createLink, LINK_MINUTES } from '../dashboard/link.ts'
import { signOutEveryone } from '../dashboard/service.ts'
import { type Command, readOptions, withDeps } from './command.ts'
import { findTenant } from './keys.ts'

/** `halfkey dashboard link` */
export const dashboardLink: Command = {
  name: 'dashboard link',
  summary: 'Print a link that signs in to the dashboard once',
  usage: '[--tenant ID]',
  details: [
    `The link begins with HALFKEY_PUBLIC_URL and is good for ${LINK_MINUTES} minutes. Whoever opens it first may do everything`,
    'there, in the tenant that is named, or in every tenant where none is.',
  ],
  async run(args, context) {
    const { tenant } = readOptions(dashboardLink, args, { tenant: { type: 'string' } })
    const { url, expiresAt, tenantId } = await withDeps(context, async (deps) => {
      const tenantId = tenant === undefined ? null : await findTenant(deps, tenant)
      return { ...(await createLink(deps, tenantId)), tenantId }
    })
    return {
      data: { url, tenantId, expiresAt: expiresAt.toISOString() },
      lines: [
        url,
        `It signs in once, within ${LINK_MINUTES} minutes, to ${tenantId === null ? 'every tenant' : `tenant ${tenantId}`}.`,
      ],
    }
  },
}

const count = (n: number, what: string) => `${n} ${what}${n === 1 ? '' : 's'}`

/** `halfkey dashboard sign-out-everyone` */
export const dashboardSignOutEveryone: Command = {
  name: 'dashboard sign-out-everyone',
  summary: 'End every dashboard session and every unused link, of all tenants',
  usage: '',
  async run(args, context) {
    readOptions(dashboardSignOutEveryone, args, {})
    const { sessions, links } = await withDeps(context, signOutEveryone)
    return {
      data: { sessions, links },
      lines: [`Ended: ${count(sessions, 'session')}, ${count(links, 'unused link')}.`],
    }
  },
}

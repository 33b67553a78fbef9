import { z } from 'zod'

const settings = {
  connect: z.boolean().meta({
    description:
      'Whether users can connect agents by OAuth, at `/mcp/` and the id of the app. Each connection is a delegated session. Switching it off ends no session: connections that exist end as their access tokens do, within 15 minutes.',
  }),
}

/** How an app's users connect agents, in responses. */
export const Agents = z.object(settings)

/** The same in the bodies of POST and PATCH. */
export const AgentsChange = z.strictObject(settings).partial()

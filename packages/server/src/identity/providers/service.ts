import { HttpError } from '../../platform/http/errors.ts'
import { limitSignIn } from '../../platform/http/rate-limits/limits.ts'
import type { PlainRoute } from '../../platform/http/route.ts'
import { refusal } from '../sign-in/service.ts'

export { startProvider } from './flow.ts'

type Speaking = typeof import('./at-provider.ts')
type Page = 'beginAtProvider' | 'returnFromProvider' | 'formFromProvider'

const speaking = (): Promise<Speaking> => import('./at-provider.ts')

/** Counts each visit for the client's address, before the database or a provider is asked. Too many get a page that says so. */
const page =
  (name: Page): PlainRoute['handler'] =>
  async (deps, request) => {
    try {
      await limitSignIn(deps, request.address)
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 429) throw error
      const answer = refusal(429, 'Too many attempts', 'Wait a minute. Then go back to the app and sign in again.')
      return { ...answer, headers: { ...answer.headers, ...error.headers } }
    }
    return (await speaking())[name](deps, request)
  }

/** `GET /signin/providers/:id/begin`: where `authorizationUrl` leads. */
export const beginAtProvider = page('beginAtProvider')
/** `GET /signin/providers/:id/callback`: where a provider sends browsers back to. */
export const returnFromProvider = page('returnFromProvider')
/** `POST /signin/providers/:id/callback`: the same for providers that send a form. */
export const formFromProvider = page('formFromProvider')

/** See `token.ts`. */
export const prepareSignIn: Speaking['prepareSignIn'] = async (...call) => (await speaking()).prepareSignIn(...call)
/** See `token.ts`. */
export const signInWithToken: Speaking['signInWithToken'] = async (...call) =>
  (await speaking()).signInWithToken(...call)

/** See `link.ts`. */
export const prepareProviderLink: Speaking['prepareProviderLink'] = async (...call) =>
  (await speaking()).prepareProviderLink(...call)
/** See `link.ts`. */
export const linkProvider: Speaking['linkProvider'] = async (...call) => (await speaking()).linkProvider(...call)

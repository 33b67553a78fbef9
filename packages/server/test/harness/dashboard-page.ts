/** A browser's way through the dashboard, as far as tests of the server need one. */
import { createLink } from '../../src/operations/dashboard/link.ts'
import { type Answer, type CallOptions, call, type Service } from './harness.ts'

/** A page that has signed in. */
export interface Page {
  cookie: string
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
  session: any
  /** A call below `/dashboard/api` as the page makes it: `headers` are added, and one of undefined is left out. */
  call(
    method: string,
    path: string,
    options?: Omit<CallOptions, 'headers'> & { headers?: Record<string, string | undefined> },
  ): Promise<Answer>
}

const API = '/dashboard/api'

/** What a browser sends with a page's own calls. */
export const ownHeaders = (service: Service): Record<string, string> => ({
  origin: `http://localhost:${new URL(service.url).port}`,
  'sec-fetch-site': 'same-origin',
  'sec-fetch-mode': 'cors',
})

/** The token of a new link. */
export async function newLink(service: Service, tenantId: string | null = null): Promise<string> {
  const { url } = await createLink(service.deps, tenantId as never)
  return url.slice(url.indexOf('#link=') + '#link='.length)
}

/** Asks for a session. */
export function postSession(
  service: Service,
  body: unknown,
  headers: Record<string, string | undefined> = {},
): Promise<Answer> {
  return call(service.url, 'POST', `${API}/session`, { body, headers: sent({ ...ownHeaders(service), ...headers }) })
}

function sent(headers: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )
}

/** The cookie that an answer sets, as a browser sends it back. */
export const cookieOf = (answer: Answer): string => (answer.headers.get('set-cookie') ?? '').split(';', 1)[0] as string

/** Signs in. @throws Error where that is refused */
export async function openPage(
  service: Service,
  body: { link: string } | { key: string },
  headers: Record<string, string> = {},
): Promise<Page> {
  return pageOf(service, await postSession(service, body, headers))
}

/** The page that an answer to a sign-in leads to. @throws Error where that is refused */
export function pageOf(service: Service, answer: Answer): Page {
  if (answer.status !== 200) throw new Error(answer.text)
  return pageFor(service, cookieOf(answer), answer.body.data)
}

/** The page of a browser that has the cookie of a session. @throws Error where that is refused */
export async function pageWith(service: Service, cookie: string): Promise<Page> {
  const answer = await call(service.url, 'GET', `${API}/session`, { headers: { cookie } })
  if (answer.status !== 200) throw new Error(answer.text)
  return pageFor(service, cookie, answer.body.data)
}

function pageFor(service: Service, cookie: string, session: Page['session']): Page {
  return {
    cookie,
    session,
    call: (method, path, options = {}) =>
      call(service.url, method, path.startsWith('/dashboard') ? path : `${API}${path}`, {
        ...options,
        headers: sent({
          ...ownHeaders(service),
          cookie,
          ...(method === 'GET' ? { origin: undefined } : { 'x-halfkey-csrf': session.csrfToken }),
          ...options.headers,
        }),
      }),
  }
}

/** Signs in as the operator, by a link of theirs. */
export const openAsOperator = async (service: Service, tenantId?: string): Promise<Page> =>
  openPage(service, { link: await newLink(service) }, tenantId === undefined ? {} : { 'x-halfkey-tenant': tenantId })

import type { LoginVerify, RegisterVerify } from '../../identity/passkeys/schema.ts'
import type { Deps } from '../../platform/deps.ts'
import { limitPage, limitSignIn } from '../../platform/http/rate-limits/limits.ts'
import { one, type PlainAnswer, type PlainRequest, type PlainRoute } from '../../platform/http/route.ts'
import { serialiser, validator } from '../../platform/http/schema.ts'
import * as passkeys from '../members/passkeys/service.ts'
import { answer, DASHBOARD_CALLS, readJson } from './json-calls.ts'
import { addPasskey, listPasskeys, passkeyOptions, removePasskey, stepUp } from './member-sessions.ts'
import { checkOrigin } from './request-checks.ts'
import { NewPasskey, OldPasskey, Passkeys, Session, StepUp } from './schema.ts'

const checkStepUp = validator(StepUp)
const checkNew = validator(NewPasskey)
const checkOld = validator(OldPasskey)
const writeSession = serialiser(one(Session).schema)
const writeList = serialiser(one(Passkeys).schema)

/** Of a person who may be anybody. Counted as a sign-in for the client's address, as each challenge is stored. */
async function proofOptionsAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  checkOrigin(deps.config, request)
  const limits = await limitSignIn(deps, request.address)
  return answer(JSON.stringify({ data: await passkeys.proofOptions(deps) }), limits)
}

async function stepUpAnswer(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const limits = await limitSignIn(deps, request.address)
  const session = await stepUp(deps, request, readJson<LoginVerify>(request, checkStepUp))
  return answer(writeSession({ data: session }), limits)
}

/** The same checks, and the limit of the page's calls, for a person who is signed in. */
const forMember =
  (work: (deps: Deps, request: PlainRequest) => Promise<string>): PlainRoute['handler'] =>
  async (deps, request) => {
    const limits = await limitPage(deps, DASHBOARD_CALLS, request.address)
    return answer(await work(deps, request), limits)
  }

const PATH = '/dashboard/api/session/passkeys'

/** Passkeys of members: signing in with one, showing one again, and one's own list. */
export const passkeyRoutes: PlainRoute[] = [
  { method: 'POST', path: '/dashboard/api/session/passkey-options', handler: proofOptionsAnswer },
  { method: 'POST', path: '/dashboard/api/session/step-up', handler: stepUpAnswer },
  {
    path: PATH,
    handler: forMember(async (deps, request) => writeList({ data: await listPasskeys(deps, request) })),
  },
  {
    method: 'POST',
    path: `${PATH}/options`,
    handler: forMember(async (deps, request) => JSON.stringify({ data: await passkeyOptions(deps, request) })),
  },
  {
    method: 'POST',
    path: PATH,
    handler: forMember(async (deps, request) => {
      const input = readJson<RegisterVerify>(request, checkNew)
      return JSON.stringify({ data: await addPasskey(deps, request, request.origin, input) })
    }),
  },
  {
    method: 'POST',
    path: `${PATH}/remove`,
    handler: forMember(async (deps, request) => {
      const { id } = readJson<{ id: string }>(request, checkOld)
      await removePasskey(deps, request, request.origin, id)
      return '{"data":{}}'
    }),
  },
]

/**
 * Which endpoints the matrices run for. What they prove is the work of one function, `endpoint()`, through which every
 * route passes (one-way-in.test.ts). So `npm test` asks representatives, and the long run every endpoint there is.
 */
import { inject } from 'vitest'
import { routes } from '../../src/app.ts'
import type { Route } from '../../src/platform/http/route.ts'
import { nameOf } from './requests.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Whether the matrices run for every endpoint. */
    everyRoute: boolean
  }
}

/** At least one for each kind of callers, with lists, records, secrets, two ids in a path, and answers in two steps. */
export const REPRESENTATIVES: readonly string[] = [
  'GET /users',
  'POST /users',
  'PATCH /users/:id',
  'PUT /wallets/:id/budgets',
  'DELETE /apps/:id',
  'POST /api-keys',
  'GET /webhooks/:id/deliveries/:deliveryId',
  'GET /auth/sessions',
  'POST /auth/passkey/register-options',
  'POST /guests',
  'GET /guests/:id',
  'DELETE /delegated-sessions/:id',
  'POST /delegated-sessions/:id/execute',
  'GET /delegated-sessions/me',
  'GET /healthz',
]

/** What a matrix runs for. */
export const subjects: readonly Route[] = inject('everyRoute')
  ? routes
  : routes.filter((route) => REPRESENTATIVES.includes(nameOf(route)))

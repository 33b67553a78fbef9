import { existing } from '../../platform/http/errors.ts'
import { currentUser, IdParam, list, one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { getBulk, startBulk } from './bulk.ts'
import { BulkRun, CreateUser, ListUsers, StartBulk, UpdateUser, User } from './schema.ts'
import { createUser, deleteUser, findUserRecord, getUser, listUsers, updateUser } from './service.ts'

export const userRoutes: Route[] = [
  route(
    'GET /users',
    {
      summary: 'List users',
      description:
        'Newest first. `search` finds a literal part of the email, name, external id, party or id. It ignores case. Sorted by `email` or `externalId`, users without one come last.',
      callers: secretKey('users:read'),
      query: ListUsers,
      reply: list(User),
      replica: true,
    },
    (deps, { caller, query }) => listUsers(deps, caller, query),
  ),
  route(
    'POST /users',
    {
      summary: 'Create a user',
      description: 'Computes the user’s party immediately and emits `user.created`.',
      callers: secretKey('users:write'),
      body: CreateUser,
      reply: one(User),
      status: 201,
      errors: ['already_exists', 'quota_exceeded'],
    },
    (deps, { caller, origin, body }) => createUser(deps, { caller, origin }, body),
  ),
  route(
    'GET /users/me',
    {
      summary: 'Get the current user',
      description: 'Returns the record of the user for whom the call is made, also if the user is a guest.',
      callers: currentUser(),
      reply: one(User),
      extension: true,
    },
    async (deps, { caller, user }) => existing(await findUserRecord(deps, caller.tenantId, user.id)),
  ),
  route(
    'POST /users/bulk',
    {
      summary: 'Change many users',
      description:
        'Starts a job that suspends, activates or deletes up to 1000 users, or ends all their sessions. Each user is handled as by the call for one user, in a transaction with its event. The job survives restarts.',
      callers: secretKey('users:write'),
      body: StartBulk,
      reply: one(BulkRun),
      status: 201,
      extension: true,
    },
    (deps, { caller, origin, body }) => startBulk(deps, { caller, origin }, body),
  ),
  route(
    'GET /users/bulk/:id',
    {
      summary: 'Get a bulk change of users',
      description:
        'Returns the progress, and the users for whom the action was refused. Kept for 30 days after the end.',
      callers: secretKey('users:read'),
      params: IdParam,
      reply: one(BulkRun),
      extension: true,
    },
    (deps, { caller, params }) => getBulk(deps, caller, params.id),
  ),
  route(
    'GET /users/:id',
    { summary: 'Get a user', callers: secretKey('users:read'), params: IdParam, reply: one(User) },
    (deps, { caller, params }) => getUser(deps, caller, params.id),
  ),
  route(
    'PATCH /users/:id',
    {
      summary: 'Change a user',
      description: 'Emits `user.updated` if something changed.',
      callers: secretKey('users:write'),
      params: IdParam,
      body: UpdateUser,
      reply: one(User),
      errors: ['already_exists'],
      extension: true,
    },
    (deps, { caller, origin, params, body }) => updateUser(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /users/:id',
    {
      summary: 'Delete a user',
      description: 'Returns the record in its final state and emits `user.deleted`.',
      callers: secretKey('users:write'),
      params: IdParam,
      reply: one(User),
      extension: true,
    },
    (deps, { caller, origin, params }) => deleteUser(deps, { caller, origin }, params.id),
  ),
]

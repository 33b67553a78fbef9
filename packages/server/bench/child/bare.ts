// What the service is measured against: bare Fastify routes with one statement each, on as many connections, writing
// the same JSON by the same schema.
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import pg from 'pg'
import { z } from 'zod'
import { User } from '../../src/identity/users/schema.ts'
import { toUser, type UserRow } from '../../src/identity/users/store.ts'
import type { Connection } from '../../src/platform/db/connection.ts'
import { inlined, jsonSchema } from '../../src/platform/http/schema.ts'
import { newId } from '../../src/platform/ids.ts'
import { serveCalls } from './serve-calls.ts'

export interface BareOptions {
  connection: Connection
  connections: number
  tenantId: string
  appId: string
}

const SELECT = 'select * from users where tenant_id = $1 and id = $2'
const INSERT = `insert into bench_users (tenant_id, id, app_id, email, email_key, name, external_id, party_id, metadata, search_text, created_at, updated_at)
  values ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $10) returning *`

async function open({ connection, connections, tenantId, appId }: BareOptions): Promise<number> {
  const pool = new pg.Pool({ ...connection, max: connections })
  const reply = inlined(jsonSchema(z.object({ data: User }), 'output'))
  const app = Fastify()
  app.get('/users/:id', { schema: { response: { 200: reply } } }, async (request) => {
    const { id } = request.params as { id: string }
    const { rows } = await pool.query<UserRow>({ name: 'find', text: SELECT, values: [tenantId, id] })
    return { data: toUser(rows[0] as UserRow) }
  })
  app.post('/users', { schema: { response: { 201: reply } } }, async (request, answer) => {
    const { email, name, externalId } = request.body as { email: string; name: string; externalId: string }
    const id = newId('usr')
    const text = `${id} ${email} ${name} ${externalId}`.toLowerCase()
    const values = [tenantId, id, appId, email, name, externalId, `${id}::bench`, {}, text, new Date()]
    const { rows } = await pool.query<UserRow>({ name: 'insert', text: INSERT, values })
    answer.code(201)
    return { data: toUser(rows[0] as UserRow) }
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as AddressInfo).port
}

serveCalls({ open })

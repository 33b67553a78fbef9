import { createHash, createHmac, randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type { Answer, CallOptions, Service, Tenant } from '../../../test/harness/harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
export type Json = any

type Fields = Record<string, string | number>

const lines = (fields: Fields) =>
  Object.keys(fields)
    .sort()
    .map((name) => `${name}=${fields[name]}`)
    .join('\n')

/** Telegram's recipe for the login widget (core.telegram.org/widgets/login), written down once more. */
export function widgetHash(botToken: string, fields: Fields): string {
  const key = createHash('sha256').update(botToken).digest()
  return createHmac('sha256', key).update(lines(fields)).digest('hex')
}

/** Telegram's recipe for Mini Apps (core.telegram.org/bots/webapps). */
export function miniAppHash(botToken: string, fields: Fields): string {
  const key = createHmac('sha256', 'WebAppData').update(botToken).digest()
  return createHmac('sha256', key).update(lines(fields)).digest('hex')
}

/** A login widget's fields, signed. */
export function widget<F extends Fields>(botToken: string, fields: F): F & { hash: string } {
  return { ...fields, hash: widgetHash(botToken, fields) }
}

/** A Mini App's initData, signed. */
export const initDataOf = (botToken: string, fields: Fields) =>
  new URLSearchParams(
    Object.entries({ ...fields, hash: miniAppHash(botToken, fields) }).map(([name, value]): [string, string] => [
      name,
      String(value),
    ]),
  ).toString()

let bots = 110_201_543

/** A bot token such as BotFather gives. */
function newBotToken(): string {
  bots += 1
  return `${bots}:AA${randomBytes(24).toString('base64url')}`
}

/** An app with a bot, whose name is `shop_login_bot`. */
export interface Shop {
  tenant: Tenant
  token: string
  botId: string
  /** Signed now, or so many seconds ago. */
  date(secondsAgo?: number): number
  verify(body: object, options?: CallOptions): Promise<Answer>
}

/** A tenant whose default app has this bot, or a new one. */
export async function newShop(service: Service, token = newBotToken()): Promise<Shop> {
  const tenant = await service.newTenant()
  const messenger = { botUsername: 'shop_login_bot', botToken: token }
  const answer = await tenant.patch(`/apps/${tenant.appId}`, { messenger })
  expect(answer.status, answer.text).toBe(200)
  return {
    tenant,
    token,
    botId: token.split(':')[0] as string,
    date: (secondsAgo = 0) => Math.floor(service.deps.now().getTime() / 1000) - secondsAgo,
    verify: (body, options) => tenant.post('/auth/messenger/verify', body, options),
  }
}

/** The data of a tenant's events of a type, oldest first. */
export async function eventsOf(service: Service, tenant: Tenant, type: string): Promise<Json[]> {
  const rows = await service.sql<{ body: string }>(
    'select body from events where tenant_id = $1 and type = $2 order by id',
    [tenant.tenantId, type],
  )
  return rows.map((row) => JSON.parse(row.body).data)
}

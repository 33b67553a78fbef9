import type { PlainRoute } from '../../platform/http/route.ts'
import { answerAgent } from './service.ts'

const path = '/mcp'

/** Streamable HTTP has one path. Without sessions of the protocol, GET and DELETE are answered with 405. */
export const mcpRoutes: readonly PlainRoute[] = [
  { method: 'POST', path, handler: answerAgent },
  { method: 'GET', path, handler: answerAgent },
  { method: 'DELETE', path, handler: answerAgent },
]

import 'server-only'
import { createClient, type HalfkeyClient } from '@halfkey/sdk'

/** A client with the secret key, for server code only. It holds no connection, so each request can create one. */
export function halfkey(): HalfkeyClient {
  return createClient({
    baseUrl: process.env.HALFKEY_URL ?? 'http://127.0.0.1:8080',
    apiKey: process.env.HALFKEY_KEY ?? '',
  })
}

// Compresses the script of the API reference to less than 1 MB, which takes five seconds: too long for a first request.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import scalar from '@scalar/fastify-api-reference'
import Fastify from 'fastify'
import { COMPRESSED_SCRIPT } from '../src/platform/http/pages/api-reference.ts'

if (!existsSync(COMPRESSED_SCRIPT)) {
  const app = Fastify()
  await app.register(scalar, { routePrefix: '/reference', configuration: { url: '/openapi.json' } })
  const { rawPayload } = await app.inject('/reference/js/scalar.js')
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 10,
    [constants.BROTLI_PARAM_LGWIN]: 24,
    [constants.BROTLI_PARAM_SIZE_HINT]: rawPayload.length,
  }
  mkdirSync(dirname(COMPRESSED_SCRIPT), { recursive: true })
  writeFileSync(COMPRESSED_SCRIPT, brotliCompressSync(rawPayload, { params }))
  await app.close()
}

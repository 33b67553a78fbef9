import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, type Service, startService } from '../../../../test/harness/harness.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

test.each(['/docs/assets', '/signin'])(
  '%s serves the tokens and the font that they name, cached for ever',
  async (base) => {
    const tokens = await call(service.url, 'GET', `${base}/tokens.css`)
    expect([tokens.status, tokens.headers.get('content-type')]).toEqual([200, 'text/css; charset=utf-8'])
    const [, name] = /url\("([^"]+\.woff2)"\)/.exec(tokens.text) ?? []
    const font = await fetch(`${service.url}${base}/${name}`)
    expect([font.status, font.headers.get('content-type')]).toEqual([200, 'font/woff2'])
    expect(font.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    const bytes = new Uint8Array(await font.arrayBuffer())
    expect(new TextDecoder().decode(bytes.subarray(0, 4))).toBe('wOF2')
    // The dashboard loads it too, and has a limit for its first load.
    expect(bytes.length).toBeLessThan(30_000)
  },
)

test.each(['/docs', '/signin?app=app_none'])('the page %s links the tokens and may load its font', async (path) => {
  const { text, headers } = await call(service.url.replace('127.0.0.1', 'localhost'), 'GET', path)
  expect(text).toMatch(/<link rel="stylesheet" href="[\w/]+\/tokens\.css">/)
  expect(headers.get('content-security-policy')).toContain("font-src 'self'")
})

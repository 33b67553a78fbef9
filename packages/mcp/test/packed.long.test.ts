import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { installPacked, type Project } from '../../sdk/test/packed.ts'
import { type Service, startService } from '../../server/test/harness/harness.ts'
import { begin, connect, envOf, pay } from './agent.fixture.ts'

/** What the package may weigh: `npx` fetches it before an agent's first call. */
const TARBALL_BYTES_MAX = 160_000
const PACKING_MS = 120_000

let project: Project
let service: Service
let command: string
beforeAll(async () => {
  project = await installPacked('mcp')
  command = join(project.folder, 'node_modules/.bin/halfkey-mcp')
  service = await startService({ HALFKEY_ROLE: 'api' })
}, PACKING_MS)
afterAll(async () => {
  project?.remove()
  await service?.stop()
})

describe('the packed server', () => {
  test('is one file with its licences, installs without a network and other packages, and is small', () => {
    expect(project.files.toSorted()).toEqual([
      'LICENSE',
      'README.md',
      'dist/THIRD-PARTY-LICENSES.txt',
      'dist/main.js',
      'package.json',
    ])
    const lock = JSON.parse(readFileSync(join(project.folder, 'package-lock.json'), 'utf8'))
    expect(Object.keys(lock.packages)).toEqual(['', 'node_modules/@halfkey/mcp'])
    expect(project.tarballBytes).toBeLessThan(TARBALL_BYTES_MAX)
    const licences = readFileSync(
      join(project.folder, 'node_modules/@halfkey/mcp/dist/THIRD-PARTY-LICENSES.txt'),
      'utf8',
    )
    for (const name of ['@modelcontextprotocol/server 2.4.0', '@modelcontextprotocol/core 2.4.0', 'zod 4.6.7'])
      expect(licences).toContain(name)
  })

  test('serves an agent by its command, and pays once', async () => {
    const { tenant, session } = await begin(service)
    const agent = await connect({ env: envOf(service.url, session), command: [process.execPath, command] })
    expect((await agent.client.listTools()).tools).toHaveLength(7)
    for (const repeated of [false, true])
      expect((await agent.call('payment_send', pay('3'))).data).toMatchObject({ paid: true, repeated })
    expect((await tenant.get('/transactions')).body.total).toBe(1)
    expect(agent.said()).toBe('')
  })

  test.each([
    ['nothing', {}, 'HALFKEY_TOKEN'],
    ['no address', { HALFKEY_TOKEN: `dst_${'a'.repeat(49)}` }, 'HALFKEY_URL'],
    [
      'a key in place of the token',
      { HALFKEY_URL: 'https://example.com', HALFKEY_TOKEN: 'hk_sk_secret' },
      'HALFKEY_TOKEN',
    ],
  ])('with %s in the environment it says which variable is wrong, beside the protocol, and ends', (_, env, name) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [command], { env, encoding: 'utf8' })
    expect([status, stdout]).toEqual([78, ''])
    expect(stderr).toContain(name)
    expect(stderr).not.toMatch(/secret|dst_a/)
  })
})

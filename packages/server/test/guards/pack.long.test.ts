import { execFile } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import { createSharedWallet } from '../../../keys/src/index.ts'
import { createClient } from '../../../sdk/src/index.ts'
import { npmEnvironment } from '../harness/environment.ts'
import { DataFolder, killAll, ServiceProcess } from '../harness/service-process.ts'

const PACKAGE = fileURLToPath(new URL('../../', import.meta.url))
const DIST = join(PACKAGE, 'dist')
/** The first `npx` downloads what the package depends on. */
const INSTALL_MS = 180_000

const run = promisify(execFile)

afterAll(killAll)

it(
  'the packed package, run by npx in an empty folder, is the same service',
  async (context) => {
    const folder = new DataFolder('.halfkey')
    context.onTestFinished(() => folder.remove())
    // A build left behind would be run instead of the sources, and grow old.
    if (!existsSync(DIST)) context.onTestFinished(() => rmSync(DIST, { recursive: true, force: true }))
    await run('npm', ['pack', '--pack-destination', folder.path], { cwd: PACKAGE })
    const [tarball = ''] = readdirSync(folder.path).filter((name) => name.endsWith('.tgz'))
    expect(tarball).toMatch(/^halfkey-\d+\.\d+\.\d+.*\.tgz$/)
    const { stdout: listing } = await run('tar', ['-tzf', join(folder.path, tarball)])
    const files = listing.split('\n')
    // Compiled, for Node strips no types below node_modules; and nothing that only we need.
    expect(files).toContain('package/dist/main.js')
    expect(files).toContain('package/dist/docs/webhooks.md')
    expect(files).toContain('package/assets/dashboard/index.html')
    expect(files.filter((name) => /\.ts$|\.test\.|\.fixture\.|\/test\/|\/bench\//.test(name))).toEqual([])

    const service = new ServiceProcess({
      cwd: folder.path,
      program: ['npx', '--yes', `./${tarball}`],
      args: [],
      env: { ...npmEnvironment(), PORT: '0' },
      ownGroup: true,
    })
    await service.ready(INSTALL_MS)
    expect(service.stdout).toMatch(/^Database +embedded PostgreSQL .* created, data in \S+\/\.halfkey\/postgres$/m)
    const made = await service.call(service.key, 'POST', '/users', { body: { email: 'ada@example.com' } })
    expect(made.status).toBe(201)
    const found = await service.call(service.key, 'GET', `/users/${made.body.data.id}`)
    expect(found.body).toEqual(made.body)
    for (const path of ['/dashboard', '/docs', '/docs/webhooks']) {
      const page = await fetch(service.url + path)
      expect([page.status, await page.text()], path).toEqual([200, expect.stringContaining('</html>')])
    }
    // The keys package has come along, and its arithmetic runs in threads of the build.
    const baseUrl = service.url
    const guest = await createClient({ baseUrl, apiKey: service.key }).guests.create()
    const { wallet } = await createSharedWallet(
      createClient({ baseUrl, apiKey: service.key, accessToken: guest.accessToken }),
    )
    expect(wallet).toMatchObject({ custody: 'shared', status: 'ready' })
    // As Ctrl-C does: to npx, its shell and the service at once.
    service.signal('SIGINT')
    await service.exited
    expect(service.stderr).not.toContain('stop failed')
    expect(folder.postmaster()).toBeNull()
  },
  INSTALL_MS + 60_000,
)

import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createSharedWallet } from '../../../keys/src/index.ts'
import { createClient } from '../../../sdk/src/index.ts'
import { npmEnvironment } from '../harness/environment.ts'
import { DataFolder, killAll, ServiceProcess } from '../harness/service-process.ts'

const PACKAGE = fileURLToPath(new URL('../../', import.meta.url))
const DIST = join(PACKAGE, 'dist')
/** The first installation downloads the dependencies. */
const INSTALL_MS = 180_000

const run = promisify(execFile)

/** A build of the checkout stays; one that this test makes is removed, because it would become outdated. */
const hadBuild = existsSync(DIST)
let folder: string
/** The path of the packed server. */
let tarball: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'halfkey-packed-'))
  await run('npm', ['pack', '--pack-destination', folder], { cwd: PACKAGE })
  tarball = join(folder, readdirSync(folder)[0] ?? 'none')
}, INSTALL_MS)
afterAll(async () => {
  await killAll()
  rmSync(folder, { recursive: true, force: true })
  if (!hadBuild) rmSync(DIST, { recursive: true, force: true })
})

it('the packed package has what it runs with, its licence and its README, and nothing that only the repository needs', async () => {
  expect(basename(tarball)).toMatch(/^halfkey-\d+\.\d+\.\d+.*\.tgz$/)
  const { stdout: listing } = await run('tar', ['-tzf', tarball])
  const files = listing.trim().split('\n')
  const needed = [
    'LICENSE',
    'README.md',
    'bin/halfkey.js',
    'openapi.json',
    'assets/dashboard/index.html',
    'assets/portal/index.html',
    'assets/keys/keys.js',
  ]
  // Compiled: Node does not strip types below node_modules.
  const built = ['dist/main.js', 'dist/docs/webhooks.md']
  expect(files).toEqual(expect.arrayContaining([...needed, ...built].map((path) => `package/${path}`)))
  expect(files.filter((name) => /\.ts$|\.map$|\.test\.|\.fixture\.|\/(test|bench|scripts|src)\//.test(name))).toEqual(
    [],
  )
})

it(
  'the installed package starts by its command in an empty folder, and prints no warning',
  async (context) => {
    const project = join(folder, 'project')
    mkdirSync(project)
    await run('npm', ['install', '--no-audit', '--no-fund', tarball], { cwd: project, env: npmEnvironment() })
    const empty = new DataFolder('.halfkey')
    context.onTestFinished(() => empty.remove())
    const service = new ServiceProcess({
      cwd: empty.path,
      program: [join(project, 'node_modules/.bin/halfkey')],
      args: [],
      env: { PORT: '0' },
    })
    await service.ready()
    expect((await service.call(service.key, 'POST', '/users', { body: {} })).status).toBe(201)
    service.signal('SIGTERM')
    expect((await service.exited).code).toBe(0)
    expect(service.stderr).not.toMatch(/warn/i)
    expect(empty.postmaster()).toBeNull()
  },
  INSTALL_MS + 60_000,
)

it(
  'the packed package, run by npx in an empty folder, is the same service',
  async (context) => {
    const data = new DataFolder('.halfkey')
    context.onTestFinished(() => data.remove())
    // npx takes only a relative path for a package.
    copyFileSync(tarball, join(data.path, basename(tarball)))
    const service = new ServiceProcess({
      cwd: data.path,
      program: ['npx', '--yes', `./${basename(tarball)}`],
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
      createClient({ baseUrl, apiKey: service.key, accessToken: guest.accessToken, pin: service.pin }),
    )
    expect(wallet).toMatchObject({ custody: 'shared', status: 'ready' })
    // As Ctrl-C does: to npx, its shell and the service at once.
    service.signal('SIGINT')
    await service.exited
    expect(service.stderr).not.toContain('stop failed')
    expect(data.postmaster()).toBeNull()
  },
  INSTALL_MS + 60_000,
)

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { childEnvironment } from '../../../test/harness/environment.ts'
import { call, eventually, newDatabase } from '../../../test/harness/harness.ts'
import { DataFolder, freePort, killAll, startProcess } from '../../../test/harness/service-process.ts'

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url))
const PAGE = new URL('../../../../../docs/dashboard.md', import.meta.url)

let database: Awaited<ReturnType<typeof newDatabase>>
let folder: DataFolder
let env: Record<string, string>
beforeAll(async () => {
  database = await newDatabase()
  folder = new DataFolder()
  env = folder.env({ DATABASE_URL: database.url, PORT: String(await freePort()) })
})
afterAll(async () => {
  await killAll()
  await folder.remove()
  await database.drop()
})

const claim = (url: string, link: string) =>
  call(url, 'POST', '/dashboard/api/session', { body: { link: link.split('link=')[1] } })

/** Runs shell text in which `halfkey` is the command line, on the service's own database and key file. */
async function shell(text: string): Promise<string> {
  const script = `set -euo pipefail\nhalfkey() { "${process.execPath}" "${MAIN}" "$@"; }\n${text}`
  const { stdout } = await promisify(execFile)('bash', ['-c', script], {
    cwd: folder.path,
    env: { ...childEnvironment(), ...env },
  })
  return stdout
}

test('the first start prints a link, later ones the command that prints one; either signs in once', async () => {
  const first = await startProcess({ cwd: folder.path, env })
  const shown = /^Dashboard +(http:\/\/localhost:\d+\/dashboard#link=hk_dl_[\w-]{43})$/m.exec(
    first.stdout,
  )?.[1] as string
  expect(first.stdout.split('#link=')).toHaveLength(2)
  expect(first.stdout).toContain('for 24 hours')
  expect((await claim(first.url, shown)).body.data).toMatchObject({ via: 'link', scopes: ['*'] })
  expectError(await claim(first.url, shown), 401, 'dashboard_link_invalid')
  await first.stop()
  expect(first.stderr).not.toContain('hk_dl_')

  const later = await startProcess({ cwd: folder.path, env })
  expect(later.stdout).toMatch(
    /^Dashboard +http:\/\/localhost:\d+\/dashboard\n +Sign-in link: halfkey dashboard link$/m,
  )
  expect(later.stdout).not.toContain('#link=')
  const [link, told] = (await shell('halfkey dashboard link')).split('\n') as [string, string]
  expect(link).toBe(`http://localhost:${env.PORT}/dashboard#link=${link.split('#link=')[1]}`)
  expect(told).toContain('30 minutes')
  expect((await claim(later.url, link)).status).toBe(200)
  const invited = await shell('halfkey members invite --email ada@example.com --mail')
  expect(invited).not.toContain('#link=')
  const mailed = await eventually('the running service mails the invitation', async () => {
    const mails = (await call(later.url, 'GET', '/dev/mail.json')).body as { to: string; link: string }[]
    return mails.find(({ to }) => to === 'ada@example.com') ?? false
  })
  expect((await claim(later.url, mailed.link)).body.data).toMatchObject({ via: 'member', member: { role: 'owner' } })
  await later.stop()
})

test('the samples of its page run, in a service’s absence too', async () => {
  const samples = [...readFileSync(PAGE, 'utf8').matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].map(([, code]) => code)
  expect(samples).toHaveLength(2)
  const output = await shell(samples.join('\n'))
  expect(output).toMatch(/#link=hk_dl_/)
  expect(output).toMatch(/^Ended: \d+ sessions?, 1 unused link\.$/m)
})

/**
 * Writes the fixtures of a commit: its API's description, a dump of a database that was filled through its API, its key
 * file, and a tenant's export. Run it in a checkout of today with the path of a checkout of that commit (`npm ci` done):
 *
 *     node packages/server/test/compatibility/make-fixtures.ts ../checkout-of-the-commit
 *
 * It needs Debian's postgresql, for pg_dump. Everything in a fixture, keys included, was made for it: test data only.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { newKeyLine } from '../../src/platform/security/key-services/key-lines.ts'
import { debianPrograms, startDebianPostgres } from '../harness/debian-postgres.ts'
import { startDnsServer } from '../harness/dns-server.ts'
import { eventually } from '../harness/harness.ts'
import { startReceiver } from '../harness/receiver.ts'
import { DataFolder, killAll, type ServiceProcess, startProcess } from '../harness/service-process.ts'
import { readAnswers } from './answers.ts'
import { fill } from './fill.ts'
import { fixturePath, type Held, writeFixture } from './fixture.ts'

const checkout = resolve(process.argv[2] ?? '')
const main = join(checkout, 'packages/server/src/main.ts')
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: checkout, encoding: 'utf8' }).trim()
const programs = debianPrograms()
if (programs === null) throw new Error('pg_dump is not here: install Debian’s postgresql package.')

const folder = new DataFolder()
const postgres = await startDebianPostgres(programs)
const dns = await startDnsServer()
const receiver = await startReceiver(
  ({ path }, response) => void response.writeHead(path === '/works' ? 200 : 500).end(),
)
const kekFile = fixturePath(commit, 'kek.key')
const transferKey = fixturePath(commit, 'transfer.key')
rmSync(fixturePath(commit, ''), { recursive: true, force: true })
mkdirSync(fixturePath(commit, ''))
for (const file of [kekFile, transferKey]) writeFileSync(file, `${newKeyLine()}\n`, { mode: 0o600 })

const env = (settings: Record<string, string>) =>
  folder.env({
    DATABASE_URL: postgres.url(),
    HALFKEY_KEK_FILE: kekFile,
    HALFKEY_PUBLIC_URL: 'http://localhost:8080',
    HALFKEY_DNS_SERVERS: dns.address,
    ...settings,
  })
const serve = (settings: Record<string, string>): Promise<ServiceProcess> =>
  startProcess({ cwd: folder.path, env: env(settings), program: [process.execPath, main] })

/** A delivery of a webhook that is in this state, after so many attempts. */
function deliveryOf(service: ServiceProcess, admin: string, webhookId: string, status: string, attempts: number) {
  return eventually(`a delivery that is ${status}`, async () => {
    const page = await service.call(admin, 'GET', `/webhooks/${webhookId}/deliveries?status=${status}`)
    const found = page.body.data.find((delivery: { attempts: unknown[] }) => delivery.attempts.length === attempts)
    return found && { id: found.id as string, eventId: found.eventId as string }
  })
}

/** Has the dead letters of a webhook sent again. */
async function recover(service: ServiceProcess, admin: string, webhookId: string): Promise<string> {
  const body = { since: new Date(Date.now() - 3_600_000).toISOString() }
  const job = (await service.call(admin, 'POST', `/webhooks/${webhookId}/recover`, { body })).body.data
  await eventually('the end of the job', async () => {
    const { body: now } = await service.call(admin, 'GET', `/jobs/${job.id}`)
    return now.data.status === 'succeeded'
  })
  return job.id
}

async function make(): Promise<Held> {
  // A process whose retries come at once leaves dead letters; one whose retries come a minute later leaves a pending delivery; one
  // that only answers requests leaves an event that nothing was sent of.
  const first = await serve({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1s' })
  const admin = first.key
  const { spareAppId, ...filled } = await fill({ url: first.url, admin, dns, receiverUrl: receiver.url })
  const failing = filled.webhooks.fails.id
  await deliveryOf(first, admin, failing, 'dead_letter', 2)
  const jobId = await recover(first, admin, failing)
  const deadLetter = await deliveryOf(first, admin, failing, 'dead_letter', 4)
  const tenant = await first.call(admin, 'GET', '/tenant')
  await first.stop()

  const second = await serve({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1m' })
  const body = { url: `${receiver.url}/late`, events: ['app.deleted'] }
  const late = (await second.call(admin, 'POST', '/webhooks', { body })).body.data
  await second.call(admin, 'DELETE', `/apps/${spareAppId}`)
  const pending = await deliveryOf(second, admin, late.id, 'retrying', 1)
  await second.stop()

  const third = await serve({ HALFKEY_ROLE: 'api' })
  const unsent = await third.call(admin, 'POST', '/users', { body: { email: 'unsent@example.com' } })
  // Only the audit log records it, and nothing writes that now.
  await third.call(admin, 'PATCH', `/webhooks/${late.id}`, { body: { description: 'Late' } })
  const at = new Date().toISOString()
  const answers = await readAnswers(third.url, admin, jobId)
  writeFixture(commit, 'openapi.json.gz', JSON.stringify(JSON.parse((await read(`${third.url}/openapi.json`)).trim())))
  await third.stop()
  writeFixture(commit, 'answers.json.gz', JSON.stringify(answers))
  const webhooks = { ...filled.webhooks, late: { id: late.id, secret: late.secret } }
  return {
    ...filled,
    at,
    tenantId: tenant.body.data.id,
    admin,
    webhooks,
    jobId,
    deadLetter,
    pending,
    unsentUserId: unsent.body.data.id,
  }
}

const read = async (url: string) => (await fetch(url)).text()

function dump(): string {
  const args = ['--inserts', '--no-owner', '--no-privileges', '--no-comments', '--dbname', postgres.url()]
  const text = execFileSync(join(programs as string, 'pg_dump'), args, { encoding: 'utf8', maxBuffer: 2 ** 28 })
  // Newer releases guard psql against what is in a dump by these two; they are no SQL.
  return text.replace(/^\\(un)?restrict .*\n/gm, '')
}

try {
  const held = await make()
  writeFixture(commit, 'held.json', `${JSON.stringify(held, null, 2)}\n`)
  writeFixture(commit, 'database.sql.gz', dump())
  const out = join(folder.path, 'tenant.halfkey')
  const args = [main, 'export', '--tenant', held.tenantId, '--out', out, '--key-file', transferKey]
  execFileSync(process.execPath, args, {
    cwd: folder.path,
    env: { PATH: process.env.PATH, ...env({}) },
    stdio: 'inherit',
  })
  copyFileSync(out, fixturePath(commit, 'tenant.halfkey'))
  process.stdout.write(`wrote ${fixturePath(commit, '')} (${readFileSync(out).length} bytes of export)\n`)
} finally {
  await killAll()
  await receiver.close()
  await dns.close()
  await postgres.remove()
  await folder.remove()
}

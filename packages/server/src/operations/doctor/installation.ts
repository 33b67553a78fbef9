import { type Config, publicUrl } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import {
  COUNT_MAX,
  readFollowerLags,
  readQueueFigures,
  readTokenLags,
} from '../../platform/observability/queue-figures.ts'
import type { HeldKeys } from '../../platform/security/key-provider.ts'
import { readAppOrigins, readOpenImports, readSealingKeys, readTroubles } from './database-store.ts'
import { type Finding, firstOfEach, graded, inWords, note, ok, problem, warning } from './finding.ts'

const WAIT_SECONDS = { warning: 30, problem: 300 }
const APPS_MAX = 1_000
const APPS_TOLD = 10

const told = (n: number) => (n >= COUNT_MAX ? `at least ${COUNT_MAX}` : String(n))

/** Whether the keys in the file are those that seal this database. `held` is null where the file could not be used. */
export async function checkSealing(db: Db, held: HeldKeys | null): Promise<Finding[]> {
  const sealing = await readSealingKeys(db)
  if (sealing.length === 0) return [note('key_file.database', 'Nothing is sealed yet.', null)]
  const ids = sealing.join(', ')
  if (held === null) return [note('key_file.database', `Keys ${ids} seal this database.`, null)]
  const missing = sealing.filter((id) => !held.keyIds.includes(id))
  if (missing.length > 0)
    return [
      problem(
        'key_file.database',
        `This database is sealed by ${missing.join(', ')}, which the key file does not contain. The service will not start.`,
        'cp /safe/place/kek.key "$HALFKEY_KEK_FILE"   # the file that belongs to this database; or add its line to your file',
      ),
    ]
  const isRotating = sealing.length > 1 || sealing[0] !== held.keyId
  const isAlone = !isRotating && held.keyIds.length === 1
  return firstOfEach([
    warning(
      'key_file.rotation',
      isRotating && `A rotation is not finished: ${ids} seal this database.`,
      'halfkey keys rotate-kek',
    ),
    note(
      'key_file.rotation',
      !isAlone &&
        'The key file contains a key that this database no longer needs. Backups from before the rotation need it.',
      'halfkey keys rotate-kek --drop-old   # after you have stored a copy of its line in a safe place',
    ),
    ok('key_file.database', isAlone && `Key ${held.keyId} seals this database.`),
  ])
}

/** Checks waiting times, dead letters and workers. While the service is stopped, none of them is a problem. */
export async function checkQueue(db: Db): Promise<Finding[]> {
  const queue = await readQueueFigures(db)
  const troubles = await readTroubles(db, COUNT_MAX)
  const { outboxEvents, deliveriesPending, deliveriesLeased, workersAlive } = queue
  const { overdueLeases, deadLetters, disabledWebhooks } = troubles
  const isStopped = workersAlive === 0 && troubles.connections === 0
  const limits = isStopped ? { warning: WAIT_SECONDS.warning } : WAIT_SECONDS
  const waiting = outboxEvents + deliveriesPending
  const outbox = `${told(outboxEvents)} events wait to be handed to webhooks, the oldest for ${inWords(queue.outboxAgeSeconds)}.`
  const pending = `${told(deliveriesPending)} deliveries are pending, ${told(deliveriesLeased)} of them being sent. The most overdue has been due for ${inWords(queue.deliveryDueAgeSeconds)}.`
  const oneMore = 'HALFKEY_ROLE=worker halfkey serve   # one more worker; also read the log of the running ones'
  const serve = 'halfkey serve   # HALFKEY_ROLE=all or worker'
  return [
    graded('queue.outbox', queue.outboxAgeSeconds, limits, outbox, oneMore),
    graded('queue.deliveries', queue.deliveryDueAgeSeconds, limits, pending, oneMore),
    ...firstOfEach([
      ok('workers', workersAlive > 0 && `${workersAlive} alive.`),
      warning(
        'workers',
        isStopped && `The service is not running. ${told(waiting)} events and deliveries are waiting.`,
        serve,
      ),
      problem('workers', waiting > 0 && 'The API is running, but no worker is alive to deliver events.', serve),
      warning('workers', 'No worker is alive, so no events are delivered.', serve),
      warning(
        'queue.leases',
        overdueLeases > 0 &&
          `${told(overdueLeases)} deliveries belong to dead workers, and no other worker has taken them over.`,
        'HALFKEY_ROLE=worker halfkey serve',
      ),
      note(
        'queue.dead_letters',
        deadLetters > 0 && `There are ${told(deadLetters)} dead letters.`,
        'GET /v1/webhooks/:id/deliveries?status=dead_letter, then POST …/retry or /v1/webhooks/:id/recover',
      ),
      note(
        'queue.disabled_webhooks',
        disabledWebhooks > 0 &&
          `${told(disabledWebhooks)} webhooks are disabled, because all their deliveries failed for a long time.`,
        'PATCH /v1/webhooks/:id {"status":"active"}   # when its receiver works again',
      ),
    ]),
  ]
}

/** Checks whether the followers of the feed keep up. */
export async function checkFollowers(db: Db): Promise<Finding[]> {
  const lags = await readFollowerLags(db)
  return lags.map(({ follower, tenantsBehind, events, ageSeconds }) => {
    const check = `followers.${follower}`
    if (events === 0 || ageSeconds <= WAIT_SECONDS.warning) return ok(check, `Up to date, except for ${events} events.`)
    const seen = `${events} events of ${tenantsBehind} tenants are not processed yet. The oldest is ${inWords(ageSeconds)} old.`
    const fix =
      "journalctl -u halfkey-worker | grep 'could not process'   # a worker processes them; its log says what fails"
    return graded(check, ageSeconds, WAIT_SECONDS, seen, fix)
  })
}

/** Checks whether holdings and offers on other ledgers are followed. */
export async function checkTokenFollowers(db: Db): Promise<Finding[]> {
  const lags = await readTokenLags(db)
  return lags.map(({ ledger, ageSeconds, unread }) => {
    const check = `tokens.${ledger}`
    const rest = unread === 0 ? '' : ` ${told(unread)} wallets are still to be read.`
    if (ageSeconds <= WAIT_SECONDS.warning) return ok(check, `Holdings and offers on ${ledger} are up to date.${rest}`)
    const seen = `Holdings and offers on ${ledger} were last read ${inWords(ageSeconds)} ago.${rest}`
    const fix = `journalctl -u halfkey-worker | grep '"ledger":"${ledger}"'   # a worker follows the ledger; or the ledger is no longer in HALFKEY_LEDGERS`
    return graded(check, ageSeconds, WAIT_SECONDS, seen, fix)
  })
}

const IMPORTS_TOLD = 5

/** Tenants that were imported half-way: what is staged takes room, and needs the key that it was staged under. */
export async function checkImports(db: Db): Promise<Finding[]> {
  return (await readOpenImports(db, IMPORTS_TOLD)).map(({ id, tenantId, rows, since }) =>
    warning(
      'imports',
      `The import of tenant ${tenantId} is not finished: ${rows} rows are staged since ${since.toISOString()}. Unless it is running now, finish it before \`keys rotate-kek --drop-old\`.`,
      `halfkey import --discard ${id}   # or run the import again: it continues`,
    ),
  )
}

const within = (host: string, rpId: string) => host === rpId || host.endsWith(`.${rpId}`)

/** Apps whose passkeys no page of theirs can use: neither the public URL nor an allowed origin lies within the relying party. */
export async function checkRelyingParties(db: Db, config: Config): Promise<Finding[]> {
  const own = new URL(publicUrl(config)).hostname
  const odd = (await readAppOrigins(db, APPS_MAX)).filter(({ rpId, origins }) => {
    const hosts = [own, ...origins.flatMap((origin) => URL.parse(origin)?.hostname ?? [])]
    return !hosts.some((host) => within(host, rpId))
  })
  const apps = odd.slice(0, APPS_TOLD).map(({ appId, rpId }) => `${appId} (${rpId})`)
  const named = [...apps, ...(odd.length > APPS_TOLD ? ['…'] : [])].join(', ')
  return firstOfEach([
    warning(
      'passkeys',
      odd.length > 0 &&
        `The passkeys of ${odd.length} apps belong to hosts that are neither ${own} nor covered by an allowed origin: ${named}.`,
      'PATCH /v1/apps/:id {"allowedOrigins":["https://…"]}   # or restore HALFKEY_PUBLIC_URL, if it changed',
    ),
    ok('passkeys', "Every app's relying party matches the public URL or an origin of the app."),
  ])
}

import { type Config, publicUrl } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import { COUNT_MAX, readFollowerLags, readQueueFigures } from '../../platform/observability/queue-figures.ts'
import type { HeldKeys } from '../../platform/security/key-provider.ts'
import { readAppOrigins, readOpenImports, readSealingKeys, readTroubles, type Troubles } from './database-store.ts'
import { type Finding, inWords, note, ok, problem, warning } from './finding.ts'

const WAIT_SECONDS = { warning: 30, problem: 300 }
const APPS_MAX = 1_000
const APPS_TOLD = 10

const told = (n: number) => (n >= COUNT_MAX ? `at least ${COUNT_MAX}` : String(n))

/** Whether the keys in the file are those that seal this database. `held` is null where the file could not be used. */
export async function checkSealing(db: Db, held: HeldKeys | null): Promise<Finding[]> {
  const sealing = await readSealingKeys(db)
  if (held === null || sealing.length === 0)
    return [
      note(
        'key_file.database',
        sealing.length === 0 ? 'Nothing is sealed yet.' : `Keys ${sealing.join(', ')} seal this database.`,
        null,
      ),
    ]
  const missing = sealing.filter((id) => !held.keyIds.includes(id))
  if (missing.length > 0)
    return [
      problem(
        'key_file.database',
        `This database is sealed by ${missing.join(', ')}, which the key file does not hold: the service will not start on it.`,
        'cp /safe/place/kek.key "$HALFKEY_KEK_FILE"   # the file that belongs to this database, or its line added to yours',
      ),
    ]
  if (sealing.length > 1 || sealing[0] !== held.keyId)
    return [
      warning(
        'key_file.rotation',
        `A rotation is not finished: ${sealing.join(', ')} seal this database.`,
        'halfkey keys rotate-kek',
      ),
    ]
  if (held.keyIds.length > 1)
    return [
      note(
        'key_file.rotation',
        'The key file holds a key that this database needs no longer. Backups made before the rotation do.',
        'halfkey keys rotate-kek --drop-old   # once a copy of its line is in a safe place',
      ),
    ]
  return [ok('key_file.database', `Key ${held.keyId} seals this database.`)]
}

/** How long things have waited, what was given up, and who works. While the service is stopped nothing of it is a problem. */
export async function checkQueue(db: Db): Promise<Finding[]> {
  const queue = await readQueueFigures(db)
  const troubles = await readTroubles(db, COUNT_MAX)
  const isStopped = queue.workersAlive === 0 && troubles.connections === 0
  const waits = (check: string, what: string, seconds: number): Finding => {
    const seen = `${what} ${inWords(seconds)}.`
    const fix = 'HALFKEY_ROLE=worker halfkey serve   # one more worker; and see what the log of the present ones says'
    if (seconds > WAIT_SECONDS.problem && !isStopped) return problem(check, seen, fix)
    return seconds > WAIT_SECONDS.warning ? warning(check, seen, fix) : ok(check, seen)
  }
  const { outboxEvents, deliveriesPending, deliveriesLeased } = queue
  const findings = [
    waits(
      'queue.outbox',
      `${told(outboxEvents)} events wait for the hand-over to webhooks, the oldest for`,
      queue.outboxAgeSeconds,
    ),
    waits(
      'queue.deliveries',
      `${told(deliveriesPending)} deliveries are pending, ${told(deliveriesLeased)} of them being sent; the most overdue for`,
      queue.deliveryDueAgeSeconds,
    ),
    checkWorkers(queue.workersAlive, isStopped, outboxEvents + deliveriesPending),
  ]
  return [...findings, ...describeTroubles(troubles)]
}

function describeTroubles({ overdueLeases, deadLetters, disabledWebhooks }: Troubles): Finding[] {
  const findings: Finding[] = []
  if (overdueLeases > 0)
    findings.push(
      warning(
        'queue.leases',
        `${told(overdueLeases)} deliveries belong to workers that are gone, and no other has taken them back.`,
        'HALFKEY_ROLE=worker halfkey serve',
      ),
    )
  if (deadLetters > 0)
    findings.push(
      note(
        'queue.dead_letters',
        `${told(deadLetters)} dead letters are kept.`,
        'GET /v1/webhooks/:id/deliveries?status=dead_letter, then POST …/retry or /v1/webhooks/:id/recover',
      ),
    )
  if (disabledWebhooks > 0)
    findings.push(
      note(
        'queue.disabled_webhooks',
        `${told(disabledWebhooks)} webhooks are disabled, having failed everything for long.`,
        'PATCH /v1/webhooks/:id {"status":"active"}   # once its receiver answers',
      ),
    )
  return findings
}

function checkWorkers(alive: number, isStopped: boolean, waiting: number): Finding {
  if (alive > 0) return ok('workers', `${alive} alive.`)
  const fix = 'halfkey serve   # HALFKEY_ROLE=all or worker'
  if (isStopped)
    return warning('workers', `The service is not running; ${told(waiting)} events and deliveries wait for it.`, fix)
  return waiting > 0
    ? problem('workers', 'Requests are answered, but no worker is alive to deliver their events.', fix)
    : warning('workers', 'No worker is alive: no event would be delivered.', fix)
}

/** Whether what is derived from the feed keeps up with it. */
export async function checkFollowers(db: Db): Promise<Finding[]> {
  const lags = await readFollowerLags(db)
  return lags.map(({ follower, tenantsBehind, events, ageSeconds }) => {
    const check = `followers.${follower}`
    if (events === 0 || ageSeconds <= WAIT_SECONDS.warning) return ok(check, `Keeps up; ${events} events to go.`)
    const seen = `${events} events of ${tenantsBehind} tenants are not folded yet, the oldest for ${inWords(ageSeconds)}.`
    const fix =
      "journalctl -u halfkey-worker | grep 'could not fold'   # a worker does it, and its log says what stops it"
    return ageSeconds > WAIT_SECONDS.problem ? problem(check, seen, fix) : warning(check, seen, fix)
  })
}

const IMPORTS_TOLD = 5

/** Tenants that were imported half-way: what is staged takes room, and needs the key that it was staged under. */
export async function checkImports(db: Db): Promise<Finding[]> {
  return (await readOpenImports(db, IMPORTS_TOLD)).map(({ id, tenantId, rows, since }) =>
    warning(
      'imports',
      `The import of tenant ${tenantId} is half-way: ${rows} rows are staged since ${since.toISOString()}. Unless one is at work, finish it before \`keys rotate-kek --drop-old\`.`,
      `halfkey import --discard ${id}   # or run the import again, and it goes on`,
    ),
  )
}

const within = (host: string, rpId: string) => host === rpId || host.endsWith(`.${rpId}`)

/** Apps whose passkeys no page of theirs can use: neither the public URL nor an allowed origin lies within the relying party. */
export async function checkRelyingParties(db: Db, config: Config): Promise<Finding[]> {
  const own = new URL(publicUrl(config)).hostname
  const apps = await readAppOrigins(db, APPS_MAX)
  const odd = apps.filter(({ rpId, origins }) => {
    const hosts = origins.flatMap((origin) => URL.parse(origin)?.hostname ?? [])
    return ![own, ...hosts].some((host) => within(host, rpId))
  })
  const seen = odd
    .slice(0, APPS_TOLD)
    .map(({ appId, rpId }) => `${appId} (${rpId})`)
    .join(', ')
  return odd.length === 0
    ? [ok('passkeys', "Every app's relying party fits the public URL or an origin of the app.")]
    : [
        warning(
          'passkeys',
          `Passkeys of ${odd.length} apps belong to hosts that are neither ${own} nor within an allowed origin: ${seen}${odd.length > APPS_TOLD ? ', …' : ''}.`,
          'PATCH /v1/apps/:id {"allowedOrigins":["https://…"]}   # or HALFKEY_PUBLIC_URL, if that is what changed',
        ),
      ]
}

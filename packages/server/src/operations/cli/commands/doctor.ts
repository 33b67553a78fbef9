import { inspectConfig } from '../../../config.ts'
import type { Config } from '../../../platform/config.ts'
import { redact } from '../../../platform/observability/log.ts'
import type { HeldKeys } from '../../../platform/security/key-provider.ts'
import { checkConfiguration, checkExposure, checkStripe } from '../../doctor/configuration.ts'
import { connectToLook, type Reached } from '../../doctor/connect.ts'
import { checkDatabase } from '../../doctor/database.ts'
import { checkDataFolder, checkDisk, checkKeyFile } from '../../doctor/files.ts'
import { type Finding, type Level, note, warning } from '../../doctor/finding.ts'
import { checkFloor } from '../../doctor/floor.ts'
import {
  checkFollowers,
  checkImports,
  checkQueue,
  checkRelyingParties,
  checkSealing,
  checkTokenFollowers,
} from '../../doctor/installation.ts'
import { checkLedgers } from '../../doctor/ledgers.ts'
import { checkDns, checkEgress, checkRedis } from '../../doctor/network.ts'
import { checkRecords } from '../../doctor/records.ts'
import { checkSigners } from '../../doctor/signers.ts'
import { counted, defineCommand, EXIT } from '../command.ts'

/** A check that fails is reported as a warning and does not prevent the others; what it would have found is `nothing` then. */
async function lookFor<Found extends { findings: Finding[] }>(
  check: string,
  nothing: Omit<Found, 'findings'>,
  body: () => Promise<Found>,
): Promise<Omit<Found, 'findings'> & { findings: Finding[] }> {
  try {
    return await body()
  } catch (error) {
    const message = redact(error instanceof Error ? error.message : String(error))
    const fix = "halfkey doctor   # again, as the service's user"
    return { ...nothing, findings: [warning(check, `Could not be checked: ${message}.`, fix)] }
  }
}

async function look(check: string, body: () => Finding[] | Promise<Finding[]>): Promise<Finding[]> {
  return (await lookFor(check, {}, async () => ({ findings: await body() }))).findings
}

async function lookInside({ db, dataFolder }: Reached, config: Config, keys: HeldKeys | null): Promise<Finding[]> {
  if (db === null) {
    const seen = 'Schema, queues, workers, clock and passkeys were not checked: that needs the database.'
    const disk = dataFolder === null ? [] : await look('database.disk', () => checkDisk(dataFolder))
    return [note('database.inside', seen, null), ...disk]
  }
  const server = await lookFor('database.server', { there: false }, () => checkDatabase(db, config, dataFolder))
  if (!server.there) return server.findings
  const checks: [string, () => Promise<Finding[]>][] = [
    ['key_file.database', () => checkSealing(db, keys)],
    ['records', () => checkRecords(db, config)],
    ['floor', () => checkFloor(db, config)],
    ['queue', () => checkQueue(db)],
    ['followers', () => checkFollowers(db)],
    ['tokens', () => checkTokenFollowers(db)],
    ['imports', () => checkImports(db)],
    ['passkeys', () => checkRelyingParties(db, config)],
  ]
  const findings = [...server.findings]
  for (const [check, body] of checks) findings.push(...(await look(check, body)))
  return findings
}

async function lookAtDatabase(config: Config, keys: HeldKeys | null): Promise<Finding[]> {
  const reached = await lookFor('database', { db: null, dataFolder: null }, () => connectToLook(config))
  try {
    return [...reached.findings, ...(await lookInside(reached, config, keys))]
  } finally {
    await reached.db?.close()
  }
}

async function examine(): Promise<Finding[]> {
  const { config, problems } = inspectConfig()
  const keyFile = await lookFor('key_file', { keys: null }, () => checkKeyFile(config))
  const own = [
    ...checkConfiguration(config, problems),
    ...(await look('public_url', () => checkExposure(config))),
    ...(await look('stripe', () => checkStripe(config))),
    ...(await look('data_folder', () => checkDataFolder(config))),
    ...keyFile.findings,
  ]
  // What waits for a network waits together.
  const others = await Promise.all([
    look('dns', () => checkDns(config)),
    look('egress', () => checkEgress(config)),
    look('redis', () => checkRedis(config)),
    look('ledgers', () => checkLedgers(config)),
    look('signers', () => checkSigners(config)),
    lookAtDatabase(config, keyFile.keys),
  ])
  return [...own, ...others.flat()]
}

function describe(findings: readonly Finding[], counts: Record<Level, number>): string[] {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const indent = ' '.repeat(9)
  const lines = findings.flatMap(({ check, level, seen, fix }) => [
    `${level.padEnd(8)} ${check.padEnd(width)}  ${seen}`,
    ...(fix === null ? [] : [`${indent}${level === 'note' ? 'see' : 'fix'}: ${fix}`]),
  ])
  const sum = [counted(counts.problem, 'problem'), counted(counts.warning, 'warning'), counted(counts.note, 'note')]
  return [...lines, '', `${sum.join(', ')}; ${counts.ok} checks passed.`]
}

/** `halfkey doctor` */
export const doctor = defineCommand({
  name: 'doctor',
  summary: 'Check configuration, database, keys, network and queues, and say what to fix',
  details: `Run it with the environment and as the user of the service. The service may be running or stopped. The command changes nothing: it creates no key, applies no migration and starts no database.
Each finding is ok, a note, a warning or a problem, with a command to paste. The exit code is 1 if there is a problem.`,
  async run() {
    const findings = await examine()
    const counts = { ok: 0, note: 0, warning: 0, problem: 0 }
    for (const { level } of findings) counts[level] += 1
    return {
      data: { findings, counts },
      lines: describe(findings, counts),
      exitCode: counts.problem > 0 ? EXIT.failed : EXIT.done,
    }
  },
})

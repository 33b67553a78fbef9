import { setTimeout as pause } from 'node:timers/promises'
import { Option } from '@commander-js/extra-typings'
import type { Deps } from '../../../../platform/deps.ts'
import { recordForInstallation } from '../../../../platform/events/audit-only-entries.ts'
import { newLineBy } from '../../../../platform/security/key-services/key-lines.ts'
import { KeyServiceError } from '../../../../platform/security/key-services/key-service.ts'
import { kinds } from '../../../../platform/settings.ts'
import { defineCommand, runAlone, UsageError, withDeps } from '../../command.ts'
import { type KekRotation, ROTATION, rotateKek } from './kek-rotation.ts'
import { rewrapLines } from './key-file-change.ts'

/** Three times what a process takes at most to notice a changed key file, for clocks and slow disks. */
const NOTICE_MS = 3_000
/** Longer than any request: it waits for a connection for at most 5 s, and a statement runs for at most 15 s. */
const SETTLE_MS = 30_000

/** How long, and how often, this command's own connection may still have no answer about the new key from its key service. */
const NOTE_TRIES = 40
const NOTE_PAUSE_MS = 500

/** Notes the rotation in the audit logs, under keys that the new key wraps by now: a key service unwraps it in the background. */
async function noteRotation(deps: Deps, target: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      const act = { action: 'installation.kek_rotated', target } as const
      return await deps.db.tx((tx) => recordForInstallation(tx, deps, act))
    } catch (error) {
      if (!(error instanceof KeyServiceError) || tries === NOTE_TRIES) throw error
      await pause(NOTE_PAUSE_MS)
    }
  }
}

/** `halfkey keys generate-kek` */
export const keysGenerateKek = defineCommand({
  name: 'keys generate-kek',
  summary: 'Print a new key-encryption key, a line of a key file',
  details:
    'Needs no database. Use it for a key file that the service cannot write, e.g. a mounted secret. To write it into a file: (umask 077; halfkey keys generate-kek > kek.key)',
  options: (command) => command.option('--service <address>', 'the key service that wraps it, as HALFKEY_KEK names it'),
  async run({ service }) {
    const key = await newLineBy(service ?? null)
    return { data: { key }, lines: [key] }
  },
})

/** `halfkey keys migrate` */
export const keysMigrate = defineCommand({
  name: 'keys migrate',
  summary: 'Have the keys of the key file wrapped by a key service, or by another one',
  details: `The keys themselves stay the same, so that the database does not change, and processes go on while they read the changed file. If it is interrupted, run it again.
With --to file, the keys become plain again. Whoever has seen a plain key can still use it: after a move to a key service, run \`halfkey keys rotate-kek --drop-old\`.`,
  options: (command) => command.requiredOption('--to <address>', 'the key service, as HALFKEY_KEK names it, or `file`'),
  async run({ to }, context) {
    const service = to === 'file' ? null : to
    const { path, changed } = await withDeps(context, async (deps) => {
      const path = deps.config.kekFile as string
      return { path, changed: await runAlone(deps, ROTATION, () => rewrapLines(path, service)) }
    })
    const by = service === null ? 'plain' : `wrapped by ${service}`
    return {
      data: { changed, service },
      lines: [
        `The keys in ${path} are ${by}. Lines changed: ${changed}.`,
        service === null
          ? 'Remove HALFKEY_KEK from the settings of every process before its next start.'
          : `Set HALFKEY_KEK='${service}' for every process before its next start. Then replace the keys that were plain: halfkey keys rotate-kek --drop-old`,
      ],
    }
  },
})

function readWait(text: string): number {
  try {
    return kinds.duration(2_000, 600_000)(text)
  } catch (error) {
    throw new UsageError(`--wait must be ${(error as Error).message}.`)
  }
}

function linesOf({ keyId, isNew, rewrapped, oldKeyIds, dropped }: KekRotation): string[] {
  const old = oldKeyIds.join(', ')
  const lines = [
    `Key ${keyId}${isNew ? ', created now,' : ''} wraps every sealed value of this database. Rewrapped: ${rewrapped}.`,
  ]
  if (dropped)
    lines.push(
      `Removed from the key file: ${old}.`,
      'Earlier backups can be opened only with that key. Without a copy of it, they are lost.',
    )
  else if (oldKeyIds.length > 0)
    lines.push(
      `The key file still holds ${old}, which this database no longer needs. Earlier backups can be opened only with that key:`,
      'keep a copy of its line as long as you keep them. Then remove it from the file with:',
      'halfkey keys rotate-kek --drop-old',
    )
  lines.push('Back the key file up now, apart from the database.')
  return lines
}

/** `halfkey keys rotate-kek` */
export const keysRotateKek = defineCommand({
  name: 'keys rotate-kek',
  summary: 'Create a new key-encryption key and rewrap every sealed value with it',
  details: `You can run it while the service runs: processes read the changed key file within a second. If a rotation is interrupted, run it again: it continues where it stopped.
If the key file has one key, the command adds a new one before it. If it has several keys, the command uses the first one.
For several machines, or a file that cannot be written here, docs/operating.md says which line to put where, and when.`,
  options: (command) =>
    command
      .option(
        '--drop-old',
        'remove the old keys from the file once nothing in the database needs them. Keep a copy as long as you keep older backups: only the old key opens them',
      )
      .addOption(
        new Option('--wait <duration>', 'how long to wait for running processes to read the new file before it is used')
          .argParser(readWait)
          .default(NOTICE_MS, '3s'),
      ),
  async run({ dropOld = false, wait: noticeMs }, context) {
    const done = await withDeps(context, async (deps, progress) => {
      const rotation = await rotateKek(deps, { dropOld, noticeMs, settleMs: SETTLE_MS, progress })
      await noteRotation(deps, rotation.keyId)
      return rotation
    })
    return { data: { ...done }, lines: linesOf(done) }
  },
})

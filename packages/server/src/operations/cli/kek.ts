import { newKeyLine } from '../../platform/security/key-provider.ts'
import { kinds } from '../../platform/settings.ts'
import { type Command, readOptions, UsageError, withDeps } from './command.ts'
import { type KekRotation, rotateKek } from './kek-rotation.ts'
import { createProgress } from './progress.ts'

/** Three times what a process takes at most to notice a changed key file, for clocks and slow disks. */
const NOTICE = '3s'
/** Longer than any request: it waits for a connection for at most 5 s, and a statement runs for at most 15 s. */
const SETTLE_MS = 30_000

/** `halfkey keys generate-kek` */
export const keysGenerateKek: Command = {
  name: 'keys generate-kek',
  summary: 'Print a new key-encryption key, a line of a key file',
  usage: '',
  details: [
    'Needs no database. For a key file that the service cannot write, e.g. a mounted secret. Into a file of its own:',
    '(umask 077; halfkey keys generate-kek > kek.key)',
  ],
  async run(args) {
    readOptions(keysGenerateKek, args, {})
    const key = newKeyLine()
    return { data: { key }, lines: [key] }
  },
}

function readWait(text: string): number {
  try {
    return kinds.duration(2_000, 600_000)(text)
  } catch (error) {
    throw new UsageError(`--wait must be ${(error as Error).message}.`)
  }
}

function tell({ keyId, isNew, rewrapped, oldKeyIds, dropped }: KekRotation): string[] {
  const old = oldKeyIds.join(', ')
  const lines = [
    `Key ${keyId}${isNew ? ', made now,' : ''} wraps every sealed value of this database; ${rewrapped} were wrapped anew.`,
  ]
  if (dropped)
    lines.push(
      `Taken out of the key file: ${old}.`,
      'Backups made before can be opened by that key only: whoever has no copy of it has lost them.',
    )
  else if (oldKeyIds.length > 0)
    lines.push(
      `The key file still holds ${old}, which this database needs no longer. Backups made before can be opened by that key`,
      'only: keep a copy of its line as long as you keep them. Then take it out of the file with:',
      'halfkey keys rotate-kek --drop-old',
    )
  lines.push('Back the key file up now, apart from the database.')
  return lines
}

/** `halfkey keys rotate-kek` */
export const keysRotateKek: Command = {
  name: 'keys rotate-kek',
  summary: 'Make a new key-encryption key and wrap every sealed value by it',
  usage: '[--drop-old] [--wait 3s]',
  details: [
    'While the service runs: processes read the changed key file by themselves within a second. Ended at any point and run',
    'again, it goes on where it stopped.',
    'A key file with one key gets a new one in front of it. With several keys it goes on by the first.',
    '--drop-old takes the old keys out of the file once nothing in the database needs them. Keep a copy as long as you keep',
    'backups made before: they can be opened by the old key only.',
    '--wait is how long running processes get to see the new file before anything is under the new key.',
    'Several machines, or a file that cannot be written here: docs/operating.md says which line to put where, and when.',
  ],
  async run(args, context) {
    const options = readOptions(keysRotateKek, args, { 'drop-old': { type: 'boolean' }, wait: { type: 'string' } })
    const noticeMs = readWait(options.wait ?? NOTICE)
    const dropOld = options['drop-old'] ?? false
    const progress = createProgress(context)
    const done = await withDeps(context, (deps) =>
      rotateKek(deps, { dropOld, noticeMs, settleMs: SETTLE_MS, progress }),
    )
    return { data: { ...done }, lines: tell(done) }
  },
}

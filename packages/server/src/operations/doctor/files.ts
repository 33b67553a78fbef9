import { type Stats, statfsSync, statSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import type { Config } from '../../platform/config.ts'
import { errorCode } from '../../platform/db/embedded/errors.ts'
import { type HeldKeys, KeyFileError, openKeyFile } from '../../platform/security/key-provider.ts'
import { KeyServiceAddressError, KeyServiceError } from '../../platform/security/key-services/key-service.ts'
import { type Finding, firstOfEach, note, ok, problem, warning } from './finding.ts'

const GIB = 2 ** 30
const KEY_SERVICE_FIX =
  'Check that the service answers, that these credentials may use the key, and that the key is enabled: docs/key-services.md'
/** Below the first limit, writes will soon fail. Below the second, the operator should check. */
const FREE_BYTES = { problem: GIB, warning: 5 * GIB }

function look(path: string): Stats | 'missing' | 'closed' {
  try {
    return statSync(path)
  } catch (error) {
    return errorCode(error) === 'ENOENT' ? 'missing' : 'closed'
  }
}

const octal = (stats: Stats) => (stats.mode & 0o777).toString(8).padStart(4, '0')
const quoted = (path: string) => (/^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`)

const isStats = (found: ReturnType<typeof look>): found is Stats => typeof found === 'object'

/** The folder of the embedded database; nothing where DATABASE_URL takes its place. */
export function checkDataFolder({ databaseUrl, dataDir }: Config): Finding[] {
  if (databaseUrl !== null) return []
  const folder = look(dataDir)
  const record = join(dataDir, 'database.json')
  const stats = look(record)
  return firstOfEach([
    note(
      'data_folder',
      folder === 'missing' && `${dataDir} does not exist. The first start creates it.`,
      'halfkey serve',
    ),
    problem(
      'data_folder',
      folder === 'closed' && `${dataDir} cannot be reached by this user.`,
      `ls -ld ${quoted(dataDir)}   # run the doctor as the user of the service`,
    ),
    problem(
      'data_folder',
      isStats(folder) &&
        (folder.mode & 0o022) !== 0 &&
        `Others can write to ${dataDir} (mode ${octal(folder)}) and could replace the database.`,
      `chmod go-w ${quoted(dataDir)}`,
    ),
    ok('data_folder', isStats(folder) && `${dataDir}, mode ${octal(folder)}.`),
    problem(
      'data_folder.record',
      isStats(stats) && (stats.mode & 0o077) !== 0 && `Others can read ${record}, which contains a password.`,
      `chmod 600 ${quoted(record)}`,
    ),
  ])
}

/** Free space on the disk of the database. */
export function checkDisk(folder: string): Finding[] {
  const disk = statfsSync(folder)
  const [free, all] = [disk.bavail * disk.bsize, disk.blocks * disk.bsize]
  const seen = `${(free / GIB).toFixed(1)} GiB of ${(all / GIB).toFixed(1)} GiB are free on the disk of the database (${folder}).`
  const fix = `df -h ${quoted(folder)}; free some space or shorten HALFKEY_RETENTION: on a full disk, every write fails.`
  return firstOfEach([
    problem('database.disk', free < FREE_BYTES.problem && seen, fix),
    warning('database.disk', free < FREE_BYTES.warning && seen, fix),
    ok('database.disk', seen),
  ])
}

/** The key file by itself; `keys` is null where it cannot be used. */
export async function checkKeyFile(config: Config): Promise<{ findings: Finding[]; keys: HeldKeys | null }> {
  const path = config.kekFile as string
  const stats = look(path)
  if (stats === 'missing' && config.env === 'development') {
    const seen = `${path} does not exist. The first start in development creates it.`
    return { findings: [note('key_file', seen, null)], keys: null }
  }
  try {
    const { keyId, keyIds } = await openKeyFile(path, { create: false })
    return { findings: describeKeyFile(config, path, stats as Stats, keyIds), keys: { keyId, keyIds } }
  } catch (error) {
    if (error instanceof KeyServiceError || error instanceof KeyServiceAddressError)
      return {
        findings: [problem('key_file.service', `The key service: ${error.message}.`, KEY_SERVICE_FIX)],
        keys: null,
      }
    if (!(error instanceof KeyFileError)) throw error
    const fix = /chmod 600/.test(error.message)
      ? `chmod 600 ${quoted(path)}`
      : stats === 'missing'
        ? `cp /safe/place/kek.key ${quoted(path)}   # for a new installation only: (umask 077; halfkey keys generate-kek > ${quoted(path)})`
        : `ls -l ${quoted(path)}   # the service's user must be able to read it; restore your copy if it is damaged`
    return { findings: [problem('key_file', error.message, fix)], keys: null }
  }
}

function describeKeyFile(config: Config, path: string, stats: Stats, keyIds: readonly string[]): Finding[] {
  const me = process.getuid?.()
  const parent = dirname(path)
  const folder = look(parent)
  return firstOfEach([
    ok('key_file', `${path}, mode ${octal(stats)}, holds ${keyIds.join(', ')}.`),
    warning(
      'key_file.owner',
      me !== undefined &&
        stats.uid !== me &&
        stats.uid !== 0 &&
        `${path} belongs to user ${stats.uid}, not to root or this process's user (${me}). Its owner can read every secret.`,
      `chown "$(id -un)" ${quoted(path)}`,
    ),
    problem(
      'key_file.folder',
      isStats(folder) &&
        (folder.mode & 0o022) !== 0 &&
        (folder.mode & 0o1000) === 0 &&
        `Others can write to ${parent} and could replace the key file.`,
      `chmod go-w ${quoted(parent)}`,
    ),
    warning(
      'key_file.place',
      config.env === 'production' &&
        config.databaseUrl === null &&
        path.startsWith(config.dataDir + sep) &&
        `${path} is in the data folder, so a backup of the folder contains the secrets together with their key.`,
      `mv ${quoted(path)} /etc/halfkey/kek.key; export HALFKEY_KEK_FILE=/etc/halfkey/kek.key`,
    ),
    note(
      'key_file.backup',
      `Halfkey cannot check whether you keep a copy of ${path}. If the file is lost, no secret of the database can ever be read again.`,
      `sha256sum ${quoted(path)}   # compare with your copy, which you keep apart from the database's backups`,
    ),
  ])
}

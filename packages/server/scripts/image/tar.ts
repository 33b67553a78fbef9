import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, readdirSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'

/** What an archive holds under one path, which has no leading slash. Everything belongs to root. */
export type Entry = { path: string; mode: number } & (
  | { type: 'file'; content: Buffer | { file: string; size: number } }
  | { type: 'folder' }
  | { type: 'link'; target: string }
)

const BLOCK = 512
const NAME_MAX = 100
/** The type flags of POSIX.1-1988; `x` is the extended header of POSIX.1-2001. */
const FLAGS = { file: '0', folder: '5', link: '2', extended: 'x' } as const

const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, '0')}\0`
const padding = (size: number) => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK)
const byBytes = (a: Entry, b: Entry) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path))

interface Header {
  name: string
  target: string
  mode: number
  size: number
  flag: (typeof FLAGS)[keyof typeof FLAGS]
  seconds: number
}

function headerBlock({ name, target, mode, size, flag, seconds }: Header): Buffer {
  const block = Buffer.alloc(BLOCK)
  block.write(name, 0, NAME_MAX)
  block.write(octal(mode, 8), 100)
  block.write(octal(0, 8), 108)
  block.write(octal(0, 8), 116)
  block.write(octal(size, 12), 124)
  block.write(octal(seconds, 12), 136)
  block.write(' '.repeat(8), 148)
  block.write(flag, 156)
  block.write(target, 157, NAME_MAX)
  block.write('ustar\0' + '00', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}

/** A record `<length> <key>=<value>\n`, whose length counts its own digits. */
function extendedRecord(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`)
  let length = rest + String(rest).length
  if (length !== rest + String(length).length) length += 1
  return `${length} ${key}=${value}\n`
}

function* headers(entry: Entry, seconds: number): Generator<Buffer> {
  const name = entry.type === 'folder' ? `${entry.path}/` : entry.path
  const target = entry.type === 'link' ? entry.target : ''
  const long = Object.entries({ path: name, linkpath: target }).filter(
    ([, value]) => Buffer.byteLength(value) > NAME_MAX,
  )
  if (long.length > 0) {
    const records = Buffer.from(long.map(([key, value]) => extendedRecord(key, value)).join(''))
    const flag = FLAGS.extended
    yield headerBlock({ name: 'PaxHeader', target: '', mode: 0o644, size: records.length, flag, seconds })
    yield Buffer.concat([records, padding(records.length)])
  }
  const size = entry.type !== 'file' ? 0 : Buffer.isBuffer(entry.content) ? entry.content.length : entry.content.size
  yield headerBlock({ name, target, mode: entry.mode, size, flag: FLAGS[entry.type], seconds })
}

/** The bytes of an archive. They depend only on the entries and on `seconds`, the time that every entry gets. */
async function* archive(entries: readonly Entry[], seconds: number): AsyncGenerator<Buffer> {
  for (const entry of [...entries].sort(byBytes)) {
    yield* headers(entry, seconds)
    if (entry.type !== 'file') continue
    if (Buffer.isBuffer(entry.content)) yield Buffer.concat([entry.content, padding(entry.content.length)])
    else {
      yield* createReadStream(entry.content.file)
      yield padding(entry.content.size)
    }
  }
  yield Buffer.alloc(2 * BLOCK)
}

function hashing(): Transform & { digest(): string; bytes(): number } {
  const hash = createHash('sha256')
  let bytes = 0
  const transform = new Transform({
    transform(chunk: Buffer, _, done) {
      hash.update(chunk)
      bytes += chunk.length
      done(null, chunk)
    },
  })
  return Object.assign(transform, { digest: () => `sha256:${hash.digest('hex')}`, bytes: () => bytes })
}

/** Writes an archive to a file. @returns the digests before and after compression, and the size of the file */
export async function writeArchive(
  path: string,
  entries: readonly Entry[],
  { seconds, compress }: { seconds: number; compress: boolean },
): Promise<{ diffId: string; digest: string; size: number }> {
  const [plain, stored] = [hashing(), hashing()]
  const source = Readable.from(archive(entries, seconds))
  const file = createWriteStream(path)
  // The header of this gzip has neither a name nor a time.
  if (compress) await pipeline(source, plain, createGzip({ level: 6 }), stored, file)
  else await pipeline(source, plain, stored, file)
  return { diffId: plain.digest(), digest: stored.digest(), size: stored.bytes() }
}

/** The mode is one of few: what a build machine's umask or a package's special bits were must not reach the image. */
const modeOf = (mode: number) => ((mode & 0o111) === 0 ? 0o644 : 0o755)

/** Folders that everybody may write to where the file system allows it. */
const TEMPORARY = new Set(['tmp', 'var/tmp'])

/** A folder on disk as entries. `keep` sees each path relative to the folder; a folder that is left out is not entered. */
export function entriesOf(root: string, keep: (path: string) => boolean = () => true): Entry[] {
  const entries: Entry[] = []
  const walk = (folder: string): void => {
    for (const found of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = folder === '' ? found.name : `${folder}/${found.name}`
      if (!keep(path)) continue
      const file = join(root, path)
      if (found.isSymbolicLink()) entries.push({ path, type: 'link', mode: 0o777, target: readlinkSync(file) })
      else if (found.isDirectory()) {
        entries.push({ path, type: 'folder', mode: TEMPORARY.has(path) ? 0o1777 : 0o755 })
        walk(path)
      } else {
        const { mode, size } = statSync(file)
        entries.push({ path, type: 'file', mode: modeOf(mode), content: { file, size } })
      }
    }
  }
  walk('')
  return entries
}

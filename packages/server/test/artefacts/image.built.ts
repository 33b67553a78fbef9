// `npm run image:test`: builds the image and runs it. Not part of `npm test`, because it downloads packages and takes minutes.
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  closeSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ARCHITECTURES, type Architecture } from '../../scripts/image/platforms.ts'
import { newKeyLine } from '../../src/platform/security/key-services/key-lines.ts'
import { eventually } from '../harness/harness.ts'
import { PostgresProcess } from '../harness/postgres-process.ts'
import { freePort, killAll, ServiceProcess } from '../harness/service-process.ts'

const SCRIPT = fileURLToPath(new URL('../../scripts/image/image.ts', import.meta.url))
const BUILD_MS = 900_000
/** An emulator takes about ten times as long. */
const EMULATED_MS = 400_000
const USER = 1_000
const works = (command: string, ...args: string[]) => spawnSync(command, args, { stdio: 'ignore' }).status === 0
const isRoot = process.getuid?.() === 0

interface Descriptor {
  digest: string
  size: number
  platform?: { architecture: string }
  annotations?: Record<string, string>
}
interface Manifest {
  config: Descriptor
  layers: Descriptor[]
}
interface Config {
  config: { User: string; Env: string[]; Entrypoint: string[]; Cmd: string[]; WorkingDir: string }
}

let folder: string
/** The unpacked root file systems. */
const roots = {} as Record<Architecture, string>
const manifests = {} as Record<Architecture, Manifest>
let index: { manifests: Descriptor[] }

function build(name: string, umask: string, zone: string): string {
  const out = join(folder, name)
  execFileSync('sh', ['-c', `umask ${umask}; exec "$0" "$@"`, process.execPath, SCRIPT, '--out', out], {
    env: { ...process.env, TZ: zone },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return out
}

/** Reads a blob of the first build, and holds it against its descriptor. */
function blob({ digest, size }: Descriptor): Buffer {
  const bytes = readFileSync(blobPath(digest))
  expect([`sha256:${createHash('sha256').update(bytes).digest('hex')}`, bytes.length]).toEqual([digest, size])
  return bytes
}
const blobPath = (digest: string) => join(folder, 'first/oci/blobs/sha256', digest.slice('sha256:'.length))
const json = <T>(descriptor: Descriptor): T => JSON.parse(blob(descriptor).toString('utf8')) as T

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'halfkey-image-test-'))
  chmodSync(folder, 0o711)
  build('first', '022', 'UTC')
  const layout = JSON.parse(readFileSync(join(folder, 'first/oci/index.json'), 'utf8')) as typeof index
  index = json(layout.manifests[0]!)
  for (const architecture of ARCHITECTURES) {
    const found = index.manifests.find(({ platform }) => platform?.architecture === architecture)!
    manifests[architecture] = json(found)
    const root = join(folder, architecture)
    mkdirSync(root)
    for (const layer of manifests[architecture].layers) {
      blob(layer)
      execFileSync('tar', ['-xzf', blobPath(layer.digest), '-C', root])
    }
    roots[architecture] = root
  }
}, BUILD_MS)
afterAll(async () => {
  await killAll()
  rmSync(folder, { recursive: true, force: true })
})

test(
  'the same commit gives the same digest, under another umask and in another time zone',
  () => {
    const digest = (name: string) => readFileSync(join(folder, name, 'digest'), 'utf8')
    const archive = (name: string) => {
      const [path = ''] = globSync(join(folder, name, '*.oci.tar'))
      return createHash('sha256').update(readFileSync(path)).digest('hex')
    }
    build('second', '077', 'Asia/Tokyo')
    expect([digest('second'), archive('second')]).toEqual([digest('first'), archive('first')])
  },
  BUILD_MS,
)

test.for(ARCHITECTURES)(
  '%s: statements in the index name the packages of the image and where it comes from',
  (architecture) => {
    const image = index.manifests.find(({ platform }) => platform?.architecture === architecture)!
    const about = index.manifests.find(
      ({ annotations }) => annotations?.['vnd.docker.reference.digest'] === image.digest,
    )!
    const [bill, provenance] = json<Manifest>(about).layers.map((each) =>
      json<{ subject: { digest: { sha256: string } }[]; predicateType: string; predicate: unknown }>(each),
    )
    for (const each of [bill, provenance])
      expect(each?.subject).toEqual([{ name: 'halfkey', digest: { sha256: image.digest.slice('sha256:'.length) } }])
    const { components } = bill!.predicate as { components: { name: string; version: string; licenses?: unknown[] }[] }
    // What is installed is listed, and has a licence.
    const folders = globSync('opt/halfkey/**/node_modules/{*,@*/*}/package.json', { cwd: roots[architecture] })
    const installed = folders
      .map(
        (path) =>
          JSON.parse(readFileSync(join(roots[architecture], path), 'utf8')) as { name?: string; version?: string },
      )
      .filter(({ version, name }) => version !== undefined && name !== 'halfkey')
    expect(installed.length).toBeGreaterThan(100)
    const listed = new Set(components.map(({ name, version }) => `${name} ${version}`))
    expect(installed.filter(({ name, version }) => !listed.has(`${name} ${version}`))).toEqual([])
    expect(components.map(({ name }) => name)).toEqual(expect.arrayContaining(['libc6', 'node', 'fastify']))
    expect(components.filter(({ licenses = [] }) => licenses.length === 0).map(({ name }) => name)).toEqual([])
    expect(provenance?.predicate).toMatchObject({
      buildDefinition: { externalParameters: { platform: `linux/${architecture}` } },
    })
  },
)

test('skopeo copies the index with all manifests, and keeps its digest', (context) => {
  context.skip(!works('skopeo', '--version'), "there is no skopeo here (Debian's skopeo)")
  const target = join(folder, 'copied')
  const [archive = ''] = globSync(join(folder, 'first/*.oci.tar'))
  execFileSync('skopeo', ['copy', '--all', '--preserve-digests', `oci-archive:${archive}`, `dir:${target}`], {
    stdio: 'pipe',
  })
  const copied = createHash('sha256')
    .update(readFileSync(join(target, 'manifest.json')))
    .digest('hex')
  expect(`sha256:${copied}\n`).toBe(readFileSync(join(folder, 'first/digest'), 'utf8'))
  expect(readdirSync(target).filter((name) => name.endsWith('.manifest.json'))).toHaveLength(index.manifests.length)
})

const ELF = Buffer.from('\x7fELF', 'latin1')
/** `e_machine` of the ELF header. */
const MACHINES: Record<Architecture, number> = { amd64: 62, arm64: 183 }

/** The first bytes of each program and library in a root file system. */
function programs(root: string): { path: string; header: Buffer }[] {
  return globSync('**/*', { cwd: root }).flatMap((path) => {
    const stats = lstatSync(join(root, path))
    if (!stats.isFile() || stats.size < 64) return []
    const file = openSync(join(root, path), 'r')
    const header = Buffer.alloc(20)
    readSync(file, header)
    closeSync(file)
    return header.subarray(0, 4).equals(ELF) ? [{ path, header }] : []
  })
}

test.for(ARCHITECTURES)(
  '%s: each program and library is for it, and finds all that it links to',
  (architecture, context) => {
    const root = roots[architecture]
    const found = programs(root)
    expect(found.map(({ path }) => path)).toEqual(expect.arrayContaining(['usr/bin/node']))
    expect(found.filter(({ header }) => header.readUInt16LE(18) !== MACHINES[architecture])).toEqual([])
    context.skip(!works('readelf', '--version'), 'there is no readelf here (binutils)')
    const libraries = new Set(
      [...globSync('usr/lib/*/*.so*', { cwd: root }), ...globSync('usr/lib*/ld-*', { cwd: root })].map((path) =>
        basename(path),
      ),
    )
    const missing = found.flatMap(({ path }) => {
      const dynamic = execFileSync('readelf', ['--dynamic', join(root, path)], { encoding: 'utf8' })
      return [...dynamic.matchAll(/\(NEEDED\).*\[(.+)\]/g)].filter(([, name = '']) => !libraries.has(name))
    })
    expect(missing).toEqual([])
  },
)

test.for(ARCHITECTURES)(
  '%s: nothing in the image is a key, has special rights or belongs to a shell',
  (architecture) => {
    const root = roots[architecture]
    const all = globSync('**/*', { cwd: root })
    const special = all.filter((path) => {
      const stats = lstatSync(join(root, path))
      return stats.isFile() && ((stats.mode & 0o6000) !== 0 || (stats.mode & 0o022) !== 0)
    })
    expect(special).toEqual([])
    expect(all.filter((path) => /\.(?:key|pem|env|p12)$/.test(path))).toEqual([])
    expect(readdirSync(join(root, 'usr/bin')).sort()).toEqual(['halfkey', 'node'])
  },
)

/** The image's configuration, and its defaults as an environment. */
function settingsOf(architecture: Architecture): { config: Config['config']; env: Record<string, string> } {
  const { config } = json<Config>(manifests[architecture].config)
  return { config, env: Object.fromEntries(config.Env.map((each) => each.split(/=(.*)/s).slice(0, 2))) }
}

/** Runs its arguments in a root file system that nobody can write to, as a container's runtime does. */
const CONTAINER = `set -eu
PATH=$PATH:/usr/sbin:/sbin:/bin
unset HOME TMPDIR NODE_COMPILE_CACHE
root=$1 temporary=$2 secrets=$3 user=$4; shift 4
mount --bind "$root" "$root"
mount --bind "$temporary" "$root/tmp"
mount --bind "$secrets" "$root/run"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" --groups= "$root" "$@"`

describe('amd64, run with a read-only root and as its user', () => {
  test('the service starts on PostgreSQL, is ready, answers, and writes nowhere', async (context) => {
    context.skip(process.arch !== 'x64', 'this machine cannot run programs for amd64')
    context.skip(!isRoot || !works('unshare', '--mount', 'true'), 'mounting needs root and mount namespaces')
    const { config, env } = settingsOf('amd64')
    const [temporary, secrets] = ['temporary', 'secrets'].map((name) => join(folder, name)) as [string, string]
    for (const each of [temporary, secrets]) mkdirSync(each)
    chmodSync(temporary, 0o1777)
    // As Kubernetes mounts a secret: it belongs to root, and the group of the container may read it.
    const key = join(secrets, 'kek')
    writeFileSync(key, `${newKeyLine()}\n`)
    chmodSync(key, 0o440)
    chownSync(key, 0, USER)
    // Over TCP: another server's socket lies outside of this root.
    const database = await PostgresProcess.create()
    context.onTestFinished(() => database.remove())

    const run = (args: readonly string[], settings: Record<string, string> = {}) =>
      new ServiceProcess({
        cwd: folder,
        program: [
          'unshare',
          '--mount',
          'sh',
          '-c',
          CONTAINER,
          'container',
          roots.amd64,
          temporary,
          secrets,
          config.User,
          ...config.Entrypoint,
        ],
        args,
        env: {
          ...env,
          HOST: '127.0.0.1',
          PORT: port,
          DATABASE_URL: database.url,
          HALFKEY_KEK_FILE: '/run/kek',
          HALFKEY_PUBLIC_URL: 'https://wallets.example.com',
          ...settings,
        },
      })
    const port = String(await freePort())
    const migration = run(['migrate'])
    expect((await migration.exited).code, migration.stderr).toBe(0)
    const service = await run(config.Cmd, { HALFKEY_MIGRATE: 'off' }).ready()
    const status = readFileSync(`/proc/${service.pid}/status`, 'utf8')
    expect(status).toMatch(new RegExp(`^Uid:\t${USER}\t${USER}\t${USER}\t${USER}$`, 'm'))
    expect(await service.readyz()).toBe(200)
    expect((await service.call(service.key, 'POST', '/users', { body: {} })).status).toBe(201)
    for (const path of ['/dashboard', '/docs', '/docs/webhooks', '/docs/api'])
      expect([(await fetch(service.url + path)).status, path]).toEqual([200, path])
    const doctor = run(['doctor'])
    expect((await doctor.exited).code, doctor.stdout + doctor.stderr).toBe(0)
    expect(await service.stop()).toEqual({ code: 0, signal: null })
    expect(service.stderr).not.toMatch(/EROFS|EACCES|EPERM|warning/i)
    expect(readdirSync(temporary)).toEqual([])
  })
})

describe('arm64, run by QEMU', () => {
  const qemu = 'qemu-aarch64-static'

  test(
    'the service starts on PostgreSQL, is ready, answers and stops',
    async (context) => {
      context.skip(!works(qemu, '--version'), "there is no qemu-aarch64-static here (Debian's qemu-user-static)")
      const root = roots.arm64
      const node = [qemu, '-L', root, join(root, 'usr/bin/node')] as const
      expect(execFileSync(node[0], [...node.slice(1), '--print', 'process.arch'], { encoding: 'utf8' })).toBe('arm64\n')
      const database = await PostgresProcess.create()
      context.onTestFinished(() => database.remove())
      const key = join(folder, 'arm64.key')
      writeFileSync(key, `${newKeyLine()}\n`, { mode: 0o600 })
      const service = new ServiceProcess({
        cwd: folder,
        program: [...node, join(root, 'opt/halfkey/packages/server/bin/halfkey.js')],
        env: {
          ...settingsOf('arm64').env,
          HOST: '127.0.0.1',
          PORT: '0',
          DATABASE_URL: database.url,
          HALFKEY_KEK_FILE: key,
          HALFKEY_PUBLIC_URL: 'https://wallets.example.com',
        },
      })
      await service.ready(EMULATED_MS)
      await eventually('readiness', async () => (await service.readyz()) === 200, EMULATED_MS)
      expect((await service.call(service.key, 'POST', '/users', { body: {} })).status).toBe(201)
      service.signal('SIGTERM')
      // Under the emulator, a stop may be cut short at the service's own limit.
      expect((await service.exited).signal).toBeNull()
    },
    EMULATED_MS,
  )
})

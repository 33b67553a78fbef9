import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ARCHITECTURES, type Architecture, type Material, PLATFORMS } from './platforms.ts'
import { type Entry, entriesOf } from './tar.ts'

const SUITE = 'trixie'
/**
 * What the program `node` links to, and the names of the system. Node.js has its own root certificates and time zones,
 * and nothing in the image needs a shell.
 */
const PACKAGES = ['base-files', 'gcc-14-base', 'libc6', 'libgcc-s1', 'libstdc++6']
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const LOCK = fileURLToPath(new URL('debian-packages.json', import.meta.url))

/** A package in the file of pinned packages. */
export interface DebianPackage {
  name: string
  version: string
  architecture: Architecture
  /** Where the archive has it. */
  filename: string
  sha256: string
}

/** The pinned packages of both architectures. */
export function pinnedPackages(): DebianPackage[] {
  return (JSON.parse(readFileSync(LOCK, 'utf8')) as { packages: DebianPackage[] }).packages
}

/** The mirrors of Debian that this machine uses, whatever its own release is. */
function sites(): { main: string; security: string } {
  const targets = ['indextargets', '--format', '$(SITE)', 'Created-By: Packages']
  const found = [...new Set(execFileSync('apt-get', targets, { encoding: 'utf8' }).split('\n'))]
  const main = found.find((site) => site.endsWith('/debian') || site.endsWith('/debian/'))
  const security = found.find((site) => /\/debian-security\/?$/.test(site))
  if (main === undefined || security === undefined)
    throw new Error('The image needs a machine on which apt knows a mirror of Debian and of its security updates.')
  return { main, security }
}

/** A configuration of apt that knows nothing of this machine's packages: only the archive, for both architectures. */
function openArchive(cache: string): (program: string, args: string[], cwd?: string) => string {
  const folder = join(cache, 'apt')
  for (const each of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(folder, each), { recursive: true })
  writeFileSync(join(folder, 'status'), '')
  const source = (site: string, suite: string) => `deb [signed-by=${KEYRING}] ${site} ${suite} main\n`
  const { main, security } = sites()
  writeFileSync(join(folder, 'sources.list'), source(main, SUITE) + source(security, `${SUITE}-security`))
  const configuration = join(folder, 'apt.conf')
  writeFileSync(
    configuration,
    `Dir::Etc::sourcelist "${folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::State::lists "${folder}/lists";
Dir::State::status "${folder}/status";
Dir::Cache "${folder}/cache";
Acquire::Languages "none";
APT::Sandbox::User "root";
APT::Architecture "${ARCHITECTURES[0]}";
APT::Architectures { ${ARCHITECTURES.map((each) => `"${each}";`).join(' ')} };
`,
  )
  const run: ReturnType<typeof openArchive> = (program, args, cwd = folder) =>
    execFileSync(program, args, {
      cwd,
      env: { ...process.env, APT_CONFIG: configuration, LC_ALL: 'C' },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    })
  run('apt-get', ['update', '--quiet'])
  return run
}

/** Pins the newest versions in Debian's archive, whose signature apt verifies. */
export function updatePinnedPackages(cache: string): DebianPackage[] {
  const apt = openArchive(cache)
  const packages = ARCHITECTURES.flatMap((architecture) =>
    PACKAGES.map((name): DebianPackage => {
      const text = apt('apt-cache', ['show', '--no-all-versions', `${name}:${PLATFORMS[architecture].debian}`])
      const field = (key: string) => {
        const value = new RegExp(`^${key}: (.+)$`, 'm').exec(text)?.[1]
        if (value === undefined) throw new Error(`apt-cache shows no ${key} for ${name}:${architecture}`)
        return value
      }
      return {
        name,
        version: field('Version'),
        architecture,
        filename: field('Filename'),
        sha256: field('SHA256'),
      }
    }),
  )
  writeFileSync(LOCK, `${JSON.stringify({ suite: SUITE, packages }, null, 2)}\n`)
  return packages
}

const sha256 = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')

/** The packages' files in the cache. Those that are not there yet are downloaded. */
function download(cache: string, packages: readonly DebianPackage[]): string[] {
  const folder = join(cache, 'debian')
  mkdirSync(folder, { recursive: true })
  const pathOf = (each: DebianPackage) => join(folder, basename(each.filename))
  const missing = packages.filter((each) => !existsSync(pathOf(each)))
  if (missing.length > 0) {
    const names = missing.map(
      ({ name, version, architecture }) => `${name}:${PLATFORMS[architecture].debian}=${version}`,
    )
    try {
      openArchive(cache)('apt-get', ['download', '--quiet', ...names], folder)
    } catch (error) {
      throw new Error(
        `Debian's archive does not have all of ${names.join(', ')}. Pin the present versions with: npm run image -- --update. To build an old image again, put its packages from snapshot.debian.org into ${folder}.`,
        { cause: error },
      )
    }
  }
  return packages.map((each) => {
    const path = pathOf(each)
    if (sha256(path) === each.sha256) return path
    throw new Error(`${path} is not the package that is pinned: its SHA-256 differs`)
  })
}

/** Documentation, and the conversions of character sets that Node.js does not use. Licences stay. */
const LEFT_OUT = /^usr\/(?:share\/(?:man|lintian|locale|info|bug|doc-base)(?:\/|$)|lib\/[^/]+\/gconv(?:\/|$)|s?bin\/)/
const LEFT_OUT_DOC = /^usr\/share\/doc\/[^/]+\/(?!copyright$)/

const USERS = {
  'etc/passwd': 'root:x:0:0:root:/root:/sbin/nologin\nhalfkey:x:1000:1000:halfkey:/nonexistent:/sbin/nologin\n',
  'etc/group': 'root:x:0:\nhalfkey:x:1000:\n',
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

/** Names of licences that a copyright file lists in the machine-readable form, or else where to read them. */
function licencesOf(root: string, name: string): string[] {
  const path = `usr/share/doc/${name}/copyright`
  const names = [...readFileSync(join(root, path), 'utf8').matchAll(/^License: *(\S.*)$/gm)].map(
    ([, each = '']) => each,
  )
  return names.length === 0 ? [`see /${path}`] : [...new Set(names)].sort()
}

/** The base of the image: entries of the packages, with what scanners read, and the user. */
export function debianBase(
  cache: string,
  stage: string,
  architecture: Architecture,
): { entries: Entry[]; materials: Material[] } {
  const pinned = pinnedPackages().filter((each) => each.architecture === architecture)
  const root = join(stage, 'base')
  const extra: Entry[] = Object.entries(USERS).map(([path, text]) => file(path, text))
  const paths = download(cache, pinned)
  const materials = pinned.map((each, at): Material => {
    const path = paths[at] as string
    execFileSync('dpkg-deb', ['--extract', path, root])
    // Scanners look here for the packages of images without dpkg.
    const control = execFileSync('dpkg-deb', ['--field', path], { encoding: 'utf8' })
    extra.push(file(`var/lib/dpkg/status.d/${each.name}`, control))
    return {
      purl: `pkg:deb/debian/${encodeURIComponent(each.name)}@${encodeURIComponent(each.version)}?arch=${architecture}&distro=debian-${SUITE}`,
      name: each.name,
      version: each.version,
      licences: licencesOf(root, each.name),
      hashes: { 'SHA-256': each.sha256 },
    }
  })
  const kept = entriesOf(root, (path) => !LEFT_OUT.test(path) && !LEFT_OUT_DOC.test(path))
  const folders: Entry[] = ['var/lib/dpkg/status.d'].map((path) => ({ path, type: 'folder', mode: 0o755 }))
  return { entries: [...kept, ...folders, ...extra], materials }
}

function file(path: string, text: string): Entry {
  return { path, type: 'file', mode: 0o644, content: Buffer.from(text) }
}

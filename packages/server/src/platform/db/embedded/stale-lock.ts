import {
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { processExists } from './cluster.ts'
import { errorCode } from './errors.ts'

/**
 * After a machine or container crash the pid in postmaster.pid may belong to another process of the same user by
 * now, and PostgreSQL then refuses to start for ever. Where /proc proves that nothing at all runs in the cluster's
 * folder (every PostgreSQL process has it as its working directory), the lock files are set aside. Nothing is signalled.
 * @returns whether they were set aside
 */
export function setStaleLockAside(cluster: string): boolean {
  const path = join(cluster, 'postmaster.pid')
  const before = readText(path)
  const pid = Number(before?.split('\n')[0])
  if (before === null || !existsSync('/proc/self/cwd') || !processExists(pid)) return false
  if (someoneRunsIn(realpathSync(cluster))) return false
  const aside = `${path}.stale-${process.pid}`
  if (!moveAside(path, aside)) return false
  if (readText(aside) !== before) {
    // Another process had started a server between our look and our move: give its file back, unless it has a new one.
    giveBack(aside, path)
    return false
  }
  rmSync(aside, { force: true })
  const socketLocks = readdirSync(cluster).filter((name) => /^\.s\.PGSQL\.\d+\.lock$/.test(name))
  for (const name of socketLocks) removeLockOf(join(cluster, name), pid)
  return true
}

function removeLockOf(path: string, pid: number): void {
  if (Number(readText(path)?.split('\n')[0]) === pid) rmSync(path, { force: true })
}

/** Fails closed: a PostgreSQL process whose working directory cannot be read counts as one that runs there. */
function someoneRunsIn(folder: string): boolean {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || hasEnded(name)) continue
    try {
      if (readlinkSync(`/proc/${name}/cwd`) === folder) return true
    } catch (error) {
      if (['ENOENT', 'ESRCH'].includes(errorCode(error))) continue
      // Root in a container may lack the right to look (CAP_SYS_PTRACE); the program's name is open to all.
      if (ownerOf(`/proc/${name}`) === ownerOf(folder) && readText(`/proc/${name}/comm`)?.trim() === 'postgres')
        return true
    }
  }
  return false
}

function ownerOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.uid
}

/** A zombie keeps its id where process 1 does not collect the dead, as in many containers; it runs nowhere. */
function hasEnded(pid: string): boolean {
  return /\) [ZX]/.test(readText(`/proc/${pid}/stat`) ?? '')
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(errorCode(error))) return null
    throw error
  }
}

function moveAside(path: string, aside: string): boolean {
  try {
    renameSync(path, aside)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false
    throw error
  }
}

function giveBack(aside: string, path: string): void {
  try {
    linkSync(aside, path)
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  }
  rmSync(aside, { force: true })
}

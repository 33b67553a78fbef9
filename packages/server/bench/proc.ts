// What processes cost, out of /proc. Elsewhere than on Linux everything here answers NaN.
import { readdirSync, readFileSync } from 'node:fs'

/** USER_HZ: Linux reports 100 to user space on every architecture that Node runs on. */
const TICKS_A_SECOND = 100

interface Stat {
  parent: number
  /** Own and waited-for children's CPU time, user and system. */
  ticks: number
}

function readStat(pid: number | string): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The command's name stands in brackets and may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { parent: Number(fields[1]), ticks: [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0) }
  } catch {
    return null
  }
}

/** CPU seconds of a process so far; with `family`, its direct children's too (PostgreSQL's postmaster). */
function cpuSeconds(pid: number, family = false): number {
  const own = readStat(pid)
  if (own === null) return Number.NaN
  let { ticks } = own
  if (family) {
    for (const name of readdirSync('/proc')) {
      if (!/^\d+$/.test(name)) continue
      const stat = readStat(name)
      if (stat?.parent === pid) ticks += stat.ticks
    }
  }
  return ticks / TICKS_A_SECOND
}

/** CPU seconds of the whole machine so far, idle and waiting time apart. */
function machineCpuSeconds(): number {
  try {
    const [, ...fields] = (readFileSync('/proc/stat', 'latin1').split('\n')[0] as string).split(/\s+/)
    const [user, nice, system, , , irq, softirq, steal] = fields.map(Number) as number[]
    const busy = [user, nice, system, irq, softirq, steal].reduce<number>((sum, each) => sum + (each ?? 0), 0)
    return busy / TICKS_A_SECOND
  } catch {
    return Number.NaN
  }
}

/** Memory in MB: resident now, resident at most since the process began, and its proportional share (PSS) now. */
export function memoryMb(pid: number): { now: number; peak: number; share: number } {
  const readMb = (file: string, name: string) => {
    try {
      return (
        Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/${file}`, 'latin1'))?.[1]) / 1024
      )
    } catch {
      return Number.NaN
    }
  }
  return { now: readMb('status', 'VmRSS'), peak: readMb('status', 'VmHWM'), share: readMb('smaps_rollup', 'Pss') }
}

/** Processes by name whose CPU time is told beside a figure. */
export type Watched = Record<string, { pid: number; family?: boolean }>

/** Starts counting; the answer stops and says who used how many CPU seconds, and how much was others' work. */
export function watchCpu(watched: Watched): () => { bySeconds: Record<string, number>; others: number } {
  const read = () => Object.entries(watched).map(([name, { pid, family }]) => [name, cpuSeconds(pid, family)] as const)
  const before = Object.fromEntries(read())
  const machineBefore = machineCpuSeconds()
  const ownBefore = process.cpuUsage()
  const startedAt = performance.now()
  return () => {
    const bySeconds: Record<string, number> = {}
    let ours = 0
    for (const [name, seconds] of read()) {
      bySeconds[name] = seconds - (before[name] ?? 0)
      ours += bySeconds[name] ?? 0
    }
    const own = process.cpuUsage(ownBefore)
    ours += (own.user + own.system) / 1e6
    const wallSeconds = (performance.now() - startedAt) / 1000
    return { bySeconds, others: Math.max(0, machineCpuSeconds() - machineBefore - ours) / wallSeconds }
  }
}

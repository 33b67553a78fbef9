import { readFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { median } from './figures.ts'

/** One figure beside what it must reach. */
export interface Row {
  what: string
  measured: string
  /** What must hold, in words; left out for a figure that is only told. */
  floor?: string
  holds?: boolean
  /** The same work without the service, measured in the same run. */
  raw?: string
  /** Each run's figure. */
  runs?: string
  /** Durations behind the figure. */
  times?: string
  cpu?: string
}

export const step = (text: string) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`)

type Cpu = { bySeconds: Record<string, number>; others: number }

/** CPU seconds by process, the median of the runs; `others` is what the rest of the machine used, in cores. */
export function cpuText(runs: readonly Cpu[]): string {
  const names = Object.keys(runs[0]?.bySeconds ?? {})
  const each = names.map((name) => `${name} ${median(runs.map((run) => run.bySeconds[name] ?? Number.NaN)).toFixed(1)}`)
  return [...each, `others ${median(runs.map((run) => run.others)).toFixed(2)} cores`].join(', ')
}

function load(): string {
  try {
    return readFileSync('/proc/loadavg', 'latin1').split(' ').slice(0, 3).join(' ')
  } catch {
    return 'unknown'
  }
}

const COLUMNS = [
  'what',
  'measured',
  'at least / at most',
  'verdict',
  'raw limit',
  'runs',
  'p50, p99',
  'CPU s a run',
] as const

const verdict = (row: Row) => (row.holds === undefined ? '' : row.holds ? 'holds' : '**misses**')

/** The report: what ran where, and the table. */
export function markdown(command: string, facts: readonly string[], rows: readonly Row[]): string {
  const { model } = cpus()[0] ?? { model: 'unknown' }
  const cells = (row: Row) => [
    row.what,
    row.measured,
    row.floor ?? '',
    verdict(row),
    row.raw ?? '',
    row.runs ?? '',
    row.times ?? '',
    row.cpu ?? '',
  ]
  const line = (each: readonly string[]) => `| ${each.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [
    `## ${command}`,
    '',
    `${new Date().toISOString()} · ${cpus().length} cores, ${model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GB · Node ${process.versions.node} · load average at the end ${load()}`,
    ...facts,
    '',
    line(COLUMNS),
    line(COLUMNS.map(() => '---')),
    ...rows.map((row) => line(cells(row))),
    '',
  ].join('\n')
}

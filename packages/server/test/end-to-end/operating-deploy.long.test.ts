import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { SETTINGS } from '../../src/platform/config.ts'
import { eventually, newDatabase } from '../harness/harness.ts'
import { answer, startReceiver } from '../harness/receiver.ts'
import {
  DataFolder,
  killAll,
  ServiceProcess as Process,
  type ServiceProcess,
  startProcess,
} from '../harness/service-process.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const works = (command: string, ...args: string[]) => spawnSync(command, args, { stdio: 'ignore' }).status === 0

/** Metric names with the labels that their samples have. */
type Metrics = Map<string, Set<string>>

function parseMetrics(text: string): Metrics {
  const found: Metrics = new Map()
  const at = (name: string) => found.get(name) ?? found.set(name, new Set()).get(name)!
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\w+) (\w+)$/.exec(line)
    if (type?.[2] === 'histogram') for (const suffix of ['bucket', 'count', 'sum']) at(`${type[1]}_${suffix}`)
    else if (type !== null) at(type[1] as string)
    const sample = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line)
    if (sample === null) continue
    for (const [, label] of (sample[2] ?? '').matchAll(/(\w+)="(?:[^"\\]|\\.)*"/g))
      at(sample[1] as string).add(label as string)
  }
  return found
}

let service: ServiceProcess
let metrics: Metrics
let folder: DataFolder
beforeAll(async () => {
  folder = new DataFolder()
  // The embedded database: the figures of its disk are there with it alone.
  const env = {
    HALFKEY_RATE_LIMITS: 'on',
    HALFKEY_RATE_LIMIT_PUBLISHABLE: '1/1',
    HALFKEY_WEBHOOK_RETRY_DELAYS: '100ms',
  }
  service = await startProcess({ cwd: folder.path, env: folder.env(env) })
  const { key } = service
  const receiver = await startReceiver(answer(500))
  try {
    const [app] = (await service.call(key, 'GET', '/apps')).body.data
    await service.call(key, 'POST', '/webhooks', { body: { url: receiver.url, events: ['user.created'] } })
    await service.call(key, 'POST', '/users', { body: {} })
    const publishable = await service.call(key, 'POST', '/api-keys', {
      body: { name: 'web', type: 'publishable', appId: app.id },
    })
    await Promise.all([1, 2, 3].map(() => service.call(publishable.body.data.key, 'GET', '/healthz')))
    metrics = await eventually('figures of deliveries and followers', async () => {
      const found = parseMetrics(await (await fetch(`${service.url}/metrics`)).text())
      const seen = (name: string, label: string) => found.get(name)?.has(label)
      const all =
        seen('halfkey_delivery_attempts_total', 'outcome') &&
        seen('halfkey_rate_limited_total', 'policy') &&
        seen('halfkey_follower_lag_events', 'follower')
      return all ? found : undefined
    })
  } finally {
    await receiver.close()
  }
})
afterAll(async () => {
  await killAll()
  await folder.remove()
})

/** Labels that Prometheus adds, and `le` of buckets, which samples show. */
const ADDED = ['job', 'instance']
/** What compose fills in that cannot be any text. */
const FILLED: Record<string, string> = {
  HALFKEY_FLOOR: 'off',
  HALFKEY_PUBLIC_URL: 'https://x.example',
  HALFKEY_RECORDS: 'enforced',
  REDIS_URL: '',
}
/** Of Prometheus itself. */
const FOREIGN = new Set(['up'])

/** Everything in an expression that this service does not tell. */
function unknownIn(expression: string): string[] {
  const bare = expression.replace(/"(?:[^"\\]|\\.)*"/g, '""')
  const names = [...bare.matchAll(/\b((?:halfkey|process|nodejs)_\w+)(?:\{([^}]*)\})?/g)]
  const unknown: string[] = []
  const used: string[] = []
  for (const [, name = '', matchers = ''] of names) {
    used.push(name)
    const labels = metrics.get(name)
    if (labels === undefined) unknown.push(name)
    else
      for (const [, label = ''] of matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g))
        if (!labels.has(label) && !ADDED.includes(label)) unknown.push(`${name}{${label}}`)
  }
  for (const [, grouped = ''] of bare.matchAll(/\b(?:by|without|ignoring|on)\s*\(([^)]*)\)/g))
    for (const label of grouped.split(',').map((each) => each.trim()))
      if (!ADDED.includes(label) && !used.some((name) => metrics.get(name)?.has(label))) unknown.push(`by (${label})`)
  if (used.length === 0 && ![...bare.matchAll(/\b[a-z]+\b/g)].some(([word]) => FOREIGN.has(word)))
    unknown.push('no metric')
  for (const [open, close] of ['()', '{}', '[]'])
    if (bare.split(open as string).length !== bare.split(close as string).length)
      unknown.push(`unbalanced ${open}${close}`)
  return unknown
}

test('the check of expressions sees a name, a label and a grouping that are not there', () => {
  expect(
    unknownIn('sum by (nonsense) (halfkey_nothing_total{policy="x"}) / halfkey_rate_limited_total{route="x"}'),
  ).toEqual(['halfkey_nothing_total', 'halfkey_rate_limited_total{route}', 'by (nonsense)'])
})

test('every expression of the dashboard asks for figures and labels that the service tells', () => {
  const dashboard = JSON.parse(read('deploy/grafana-dashboard.json')) as {
    panels: {
      title: string
      type: string
      targets?: { expr: string }[]
      gridPos: Record<'x' | 'y' | 'w' | 'h', number>
    }[]
    templating: { list: { query: { query: string } }[] }
  }
  const panels = dashboard.panels.filter(({ type }) => type !== 'row')
  expect(panels.length).toBeGreaterThan(20)
  const wrong = panels.flatMap(({ title, targets = [] }) => {
    expect(targets.length, title).toBeGreaterThan(0)
    return targets.flatMap(({ expr }) =>
      unknownIn(expr.replaceAll('$__rate_interval', '5m')).map((each) => `${title}: ${each}`),
    )
  })
  expect(wrong).toEqual([])
  for (const { title, gridPos } of dashboard.panels) expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24)
  expect(new Set(panels.map(({ gridPos: { x, y } }) => `${x} ${y}`)).size).toBe(panels.length)
})

test('every figure of the service is on the dashboard or in an alert', () => {
  const shown = read('deploy/grafana-dashboard.json') + read('deploy/alerts.yaml')
  const own = [...metrics.keys()].filter(
    (name) => !/^(nodejs|process)_/.test(name) && !/_(sum|count|bucket)$/.test(name),
  )
  expect(own.length).toBeGreaterThan(15)
  expect(own.filter((name) => !shown.includes(name))).toEqual([])
})

test('every alert asks for figures that the service tells, and says what it is and what to do', () => {
  const alerts = read('deploy/alerts.yaml')
    .split(/^ {6}- alert: /m)
    .slice(1)
  expect(alerts.length).toBeGreaterThan(12)
  for (const alert of alerts) {
    const [name = ''] = alert.split('\n')
    const expression = /^ {8}expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)/m.exec(alert)
    expect(unknownIn(expression?.[1] ?? expression?.[2] ?? ''), name).toEqual([])
    expect(alert, name).toMatch(/severity: (critical|warning)/)
    expect(alert, name).toMatch(/^ {10}summary: ".+"$/m)
    expect(alert, name).toMatch(/^ {10}action: ".+"$/m)
  }
})

/** A YAML file as its own parser reads it; Python's, for the project has none. */
function yaml(path: string): unknown {
  const script = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))'
  return JSON.parse(execFileSync('python3', ['-c', script, join(ROOT, path)], { encoding: 'utf8' }))
}
const hasYaml = works('python3', '-c', 'import yaml')

describe('compose.yaml', () => {
  type Services = Record<
    string,
    { image: string; environment?: Record<string, string>; profiles?: string[]; [field: string]: unknown }
  >

  test('is YAML whose services start with PostgreSQL alone, keep no rights, and get the settings that there are', (context) => {
    context.skip(!hasYaml, "there is no Python with PyYAML here (Debian's python3-yaml)")
    const { services, secrets, volumes } = yaml('deploy/compose.yaml') as {
      services: Services
      secrets: object
      volumes: object
    }
    expect(Object.keys(services).filter((name) => services[name]?.profiles === undefined)).toEqual([
      'postgres',
      'api',
      'worker',
    ])
    expect([Object.keys(secrets), Object.keys(volumes)]).toEqual([['kek'], ['postgres', 'caddy']])
    const known: string[] = Object.values(SETTINGS).map(({ env }) => env)
    for (const name of ['api', 'worker']) {
      const each = services[name]!
      expect(each).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        depends_on: { postgres: { condition: 'service_healthy' } },
      })
      expect(Object.keys(each.environment ?? {}).filter((variable) => !known.includes(variable))).toEqual([])
      // As compose fills them in; the configuration is one that the service starts with.
      const filled = Object.entries(each.environment ?? {}).map(([variable, value]) => [
        variable,
        value.replace(/\$\{(\w+)(:[?-][^}]*)?\}/g, (_, from) => FILLED[from] ?? 'x'),
      ])
      expect(loadConfig({ HOST: '0.0.0.0', ...Object.fromEntries(filled) }).role).toBe(name)
    }
    for (const [name, { image }] of Object.entries(services))
      if (name !== 'api' && name !== 'worker') expect(image).toMatch(/^docker\.io\/library\/\w+:\d+\.\d+/)
  })

  test('docker compose takes it', (context) => {
    context.skip(!works('docker', 'compose', 'version'), 'there is no docker compose here')
    const env = {
      PATH: process.env.PATH ?? '',
      POSTGRES_PASSWORD: 'x',
      HALFKEY_PUBLIC_URL: 'https://x.example',
      HALFKEY_METRICS_TOKEN: 'x',
    }
    execFileSync('docker', ['compose', '-f', join(ROOT, 'deploy/compose.yaml'), 'config', '--quiet'], { env })
  })
})

describe('halfkey.service', () => {
  const unit = read('deploy/halfkey.service')
  const field = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1]

  test('stops later than the service does, and does not try a wrong configuration again and again', () => {
    expect(Number(field('TimeoutStopSec'))).toBeGreaterThan(10 + 10)
    expect([field('KillMode'), field('RestartPreventExitStatus'), field('Restart')]).toEqual(['mixed', '78', 'always'])
    expect([field('ProtectSystem'), field('NoNewPrivileges'), field('CapabilityBoundingSet')]).toEqual([
      'strict',
      'yes',
      '',
    ])
  })

  test('systemd understands every line, and calls what is left open little', (context) => {
    context.skip(!works('systemd-analyze', '--version'), 'there is no systemd-analyze here')
    const { stdout, stderr } = spawnSync('systemd-analyze', ['verify', join(ROOT, 'deploy/halfkey.service')], {
      encoding: 'utf8',
    })
    const complaints = `${stdout}${stderr}`
      .split('\n')
      .filter((line) => line.includes('halfkey.service') && !line.includes('/opt/halfkey'))
    expect(complaints).toEqual([])
    const { stdout: security } = spawnSync(
      'systemd-analyze',
      ['security', '--offline=yes', join(ROOT, 'deploy/halfkey.service')],
      { encoding: 'utf8' },
    )
    expect(Number(/Overall exposure level .*: ([\d.]+)/.exec(security)?.[1])).toBeLessThan(2)
  })

  test('what it starts, with the settings beside it, starts, is ready and stops within its time', async (context) => {
    const database = await newDatabase()
    const place = new DataFolder()
    context.onTestFinished(async () => {
      await place.remove()
      await database.drop()
    })
    const kekFile = join(place.path, 'kek.key')
    execFileSync('sh', ['-c', `umask 077; openssl rand -base64 32 > "$1"`, 'sh', kekFile])
    const lines = read('deploy/halfkey.env')
      .split('\n')
      .flatMap((line) => {
        const match = /^([A-Z_]+)=(.*)$/.exec(line)
        return match === null ? [] : [[match[1] as string, match[2] as string]]
      })
    const given: Record<string, string> = Object.fromEntries(lines)
    const known: string[] = Object.values(SETTINGS).map(({ env }) => env)
    expect(Object.keys(given).filter((name) => !known.includes(name))).toEqual([])
    expect(field('ExecStart')).toBe('/opt/halfkey/node_modules/.bin/halfkey serve')
    const program = [join(ROOT, 'packages/server/bin/halfkey.js')]
    const own = { HALFKEY_KEK_FILE: kekFile, HALFKEY_FLOOR: join(place.path, 'floor') }
    const env = { ...given, ...own, PORT: '0', DATABASE_URL: database.url }
    const running = await startProcess({ cwd: place.path, env, program: [process.execPath, ...program] })
    expect(await running.readyz()).toBe(200)
    const doctor = new Process({ cwd: place.path, env, args: ['doctor'] })
    expect((await doctor.exited).code, doctor.stdout).toBe(0)
    expect(await running.stop()).toEqual({ code: 0, signal: null })
  })
})

describe('Containerfile', () => {
  const lines = read('deploy/Containerfile')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const of = (word: string) =>
    lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1))
  const copies = of('COPY')
    .filter((line) => !line.startsWith('--from='))
    .map((line) => {
      const paths = line.split(' ')
      return { from: paths.slice(0, -1), to: paths.at(-1) as string }
    })

  test('names its base by a full version that the service runs on, and runs as another user than root', () => {
    const bases = of('FROM').map((line) => line.split(' ', 1)[0])
    expect(bases).toEqual(Array(2).fill(expect.stringMatching(/^docker\.io\/library\/node:24\.\d+\.\d+-\w+-slim$/)))
    expect(bases[0]).toBe(bases[1])
    expect(of('USER')).toEqual(['1000:1000'])
    const settings: string[] = Object.values(SETTINGS).map(({ env }) => env)
    const own = of('ENV').flatMap((line) => [...line.matchAll(/(\w+)=/g)].map(([, name = '']) => name))
    expect(own.filter((name) => name !== 'NODE_ENV' && !settings.includes(name))).toEqual([])
    expect(lines.map((line) => line.split(' ', 1)[0]).at(-1)).toBe('CMD')
  })

  /** The pages that the first stage makes. */
  const BUILT = ['dashboard', 'portal', 'keys'].map((name) => `packages/server/assets/${name}`)

  /** What COPY does, out of the repository or, with `--from`, out of the folder of another stage. */
  function copyInto(image: string, words: string[], folders: ReadonlyMap<string, string>): void {
    const stage = words[0]?.startsWith('--from=') ? words[0].slice('--from='.length) : undefined
    const paths = stage === undefined ? words : words.slice(1)
    const target = paths.at(-1)!
    for (const path of paths.slice(0, -1)) {
      const from = stage === undefined ? join(ROOT, path) : join(folders.get(stage)!, path.replace('/opt/halfkey/', ''))
      const to = statSync(from).isDirectory() || paths.length === 2 ? join(image, target) : join(image, target, path)
      // What the ignore file keeps out: the first stage makes it.
      const filter = (each: string) => stage !== undefined || !BUILT.some((page) => each.startsWith(join(ROOT, page)))
      mkdirSync(dirname(to), { recursive: true })
      cpSync(from, to, { recursive: true, filter })
    }
  }

  test('copies what is there, and its ignore file lets that through and no key', () => {
    const rules = read('deploy/Containerfile.dockerignore')
      .split('\n')
      .filter((line) => line !== '')
    expect(rules[0]).toBe('**')
    const allowed = new Set(
      globSync(
        rules.filter((rule) => rule.startsWith('!')).map((rule) => rule.slice(1)),
        { cwd: ROOT },
      ),
    )
    for (const source of copies.flatMap(({ from }) => from)) {
      expect(existsSync(join(ROOT, source)), source).toBe(true)
      expect(allowed.has(source), `${source} is kept out`).toBe(true)
    }
  })

  test('its commands, run in a plain folder with what it copies, make a service that says what it can do', async (context) => {
    const folders = new Map<string, string>()
    let image = ''
    let nodeEnv: Record<string, string> = {}
    for (const line of lines) {
      const [word = '', ...rest] = line.split(' ')
      if (word === 'FROM') {
        image = mkdtempSync(join(tmpdir(), 'hk-image-'))
        folders.set(rest.at(-1)!, image)
        nodeEnv = {}
      }
      if (line === 'ENV NODE_ENV=production') nodeEnv = { NODE_ENV: 'production' }
      if (word === 'COPY') copyInto(image, rest, folders)
      if (word === 'RUN')
        execFileSync('sh', ['-c', rest.join(' ')], { cwd: image, env: { ...process.env, ...nodeEnv }, stdio: 'pipe' })
    }
    context.onTestFinished(() => {
      for (const folder of folders.values()) rmSync(folder, { recursive: true, force: true })
    })
    for (const file of ['dashboard/index.html', 'portal/index.html', 'keys/keys.js'])
      expect(existsSync(join(image, 'packages/server/assets', file)), file).toBe(true)
    const [entry = ''] = of('ENTRYPOINT')
    const [, ...program] = JSON.parse(entry) as string[]
    const help = execFileSync(process.execPath, [...program, 'help'], { cwd: image, encoding: 'utf8' })
    expect(help).toContain('doctor')
    const database = await newDatabase()
    context.onTestFinished(() => database.drop())
    const running = await startProcess({
      cwd: image,
      program: [process.execPath, ...program],
      env: { DATABASE_URL: database.url, PORT: '0', HALFKEY_DRAIN: '0' },
    })
    expect(await running.readyz()).toBe(200)
    const check = JSON.parse(of('HEALTHCHECK')[0]!.replace(/^.*CMD /, '')) as string[]
    const probe = (port: string) => spawnSync(process.execPath, check.slice(1), { env: { PORT: port } }).status
    expect([probe(new URL(running.url).port), probe('1')]).toEqual([0, 1])
    await running.stop()
  }, 240_000)
})

import { describeConfig, programName } from './config.ts'
import { FIRST_LINK_HOURS } from './operations/dashboard/link.ts'
import type { Config } from './platform/config.ts'
import { publicUrl } from './platform/config.ts'
import type { OpenedDatabase } from './platform/db/installation.ts'
import { VERSION } from './platform/version.ts'
import type { FirstStart, Running } from './start.ts'

const field = (name: string, value: string): string => `${name.padEnd(17)} ${value}`

/** Where requests on this machine reach it. */
function ownUrl(config: Config, port: number): string {
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  return `http://${host}:${port}`
}

/** The settings that differ from their defaults. */
function changedSettings(config: Config): string[] {
  const changed = describeConfig(config).filter(({ isDefault }) => !isDefault)
  return changed.map(({ name, value }, index) => field(index === 0 ? 'Settings' : '', `${name}=${value ?? ''}`))
}

function firstSteps(config: Config, first: FirstStart, pin: string): string[] {
  if (first.given) return ['', `Created the tenant ${first.tenantId}. Its admin key is the one in HALFKEY_ADMIN_KEY.`]
  return [
    '',
    `Created the tenant ${first.tenantId}. Its admin key is shown only now; keep it like a password:`,
    '',
    ...(config.port === 0 ? [] : [`  export HALFKEY_URL=${ownUrl(config, config.port)}`]),
    `  export HALFKEY_KEY=${first.key}`,
    `  export HALFKEY_PIN=${pin}`,
    '',
  ]
}

/** What a start says before it is ready: changed settings, the database and, the first time, the admin key. Not a log. */
export function preamble(config: Config, database: OpenedDatabase, first: FirstStart | null, pin: string): string {
  return [
    `Halfkey ${VERSION} (${config.role}, ${config.env}). All settings: ${programName()} config`,
    ...changedSettings(config),
    field('Database', database.description),
    ...config.unknown.map((name) => `The variable ${name} is unknown and was ignored. Check its spelling.`),
    ...(first === null ? [] : firstSteps(config, first, pin)),
  ].join('\n')
}

/** What it says once it answers; the dashboard comes last, where the eye is. */
export function readyLines(config: Config, running: Running): string {
  if (running.address === null)
    return 'Ready. This worker delivers events and listens on no port. Set PORT to serve health probes.'
  const url = ownUrl(config, running.address.port)
  if (config.role === 'worker') return `Ready. Probes: ${url}/readyz`
  const link = running.dashboardLink
  return [
    'Ready.',
    field('API', `${url}/v1`),
    field('Service pin', running.pin),
    field('Documentation', `${url}/docs`),
    ...(running.appId === null ? [] : [field('Sign-in page', `${publicUrl(config)}/signin?app=${running.appId}`)]),
    field('Dashboard', link ?? `${publicUrl(config)}/dashboard`),
    field(
      '',
      link === null
        ? `Sign-in link: ${programName()} dashboard link`
        : `This link works once, for ${FIRST_LINK_HOURS} hours.`,
    ),
  ].join('\n')
}

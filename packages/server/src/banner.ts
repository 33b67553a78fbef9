import { describeConfig } from './config.ts'
import { FIRST_LINK_HOURS } from './operations/dashboard/link.ts'
import type { Config } from './platform/config.ts'
import { publicUrl } from './platform/config.ts'
import type { OpenedDatabase } from './platform/db/installation.ts'
import { VERSION } from './platform/version.ts'
import type { FirstStart, Running } from './start.ts'

const line = '─'.repeat(72)

function firstSteps(first: FirstStart): string[] {
  const theKey = first.given
    ? ['The admin key is the one in HALFKEY_ADMIN_KEY.']
    : [
        'The admin key, shown this once: keep it like a password. To use it in another shell, paste:',
        '',
        `  export HALFKEY_KEY=${first.key}`,
      ]
  return [line, `First start: tenant ${first.tenantId} was made, with one app and one admin key.`, ...theKey]
}

/** What a start says before it is ready: the configuration, the database and, the first time, the admin key. Not a log. */
export function preamble(config: Config, database: OpenedDatabase, first: FirstStart | null): string {
  const unknown = config.unknown.map((name) => `Unknown variable ${name} is ignored: is it misspelt?`)
  const development =
    config.env === 'development'
      ? [
          'Development mode: loopback receivers and origins over http are allowed. Set HALFKEY_ENV=production to serve others.',
        ]
      : []
  return [
    `Halfkey ${VERSION} (${config.role}, ${config.env})`,
    line,
    ...describeConfig(config),
    line,
    `Database          ${database.description}`,
    ...development,
    ...unknown,
    ...(first === null ? [] : firstSteps(first)),
    line,
  ].join('\n')
}

function firstCall(url: string): string[] {
  return [
    '',
    'Create a user:',
    '',
    `  curl -sS ${url}/v1/users -H "x-api-key: $HALFKEY_KEY" -H 'content-type: application/json' -d '{"email":"ada@example.com"}'`,
    '',
  ]
}

function dashboardLines(config: Config, link: string | null): string[] {
  if (link === null)
    return [`Dashboard         ${publicUrl(config)}/dashboard  (a link that signs in: halfkey dashboard link)`]
  return [
    `Dashboard         ${link}`,
    `                  The link signs in once, within ${FIRST_LINK_HOURS} hours. For another: halfkey dashboard link`,
  ]
}

/** What it says once it answers. */
export function readyLines(config: Config, running: Running): string {
  if (running.address === null)
    return 'Ready. This worker delivers events and listens on no port (set PORT for probes).'
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  const url = `http://${host}:${running.address.port}`
  if (config.role === 'worker') return `Ready. Probes: ${url}/readyz`
  return [
    `API               ${url}/v1`,
    ...dashboardLines(config, running.dashboardLink),
    `Documentation     ${url}/docs`,
    `API reference     ${url}/docs/api`,
    `OpenAPI           ${url}/openapi.json`,
    `Probes            ${url}/healthz  ${url}/readyz`,
    `Public URL        ${publicUrl(config)}`,
    ...(running.appId === null ? [] : [`Sign-in page      ${publicUrl(config)}/signin?app=${running.appId}`]),
    ...(running.first === null ? [] : firstCall(url)),
    'Ready.',
  ].join('\n')
}

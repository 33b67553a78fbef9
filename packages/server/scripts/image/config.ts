import type { Source } from './documents.ts'

/** The same number as in deploy/Containerfile: key files on disk belong to it. */
const USER = '1000:1000'

/** Defaults of the image, all of them settings of the service but NODE_ENV. */
export const ENVIRONMENT = { NODE_ENV: 'production', HALFKEY_ENV: 'production', HOST: '0.0.0.0', PORT: '8080' } as const

const SECOND_NS = 1_000_000_000
const PROBE =
  "fetch('http://127.0.0.1:'+process.env.PORT+'/healthz').then(r=>process.exit(r.ok?0:1),()=>process.exit(1))"

/** Labels of the image and annotations of its manifests. https://specs.opencontainers.org/image-spec/annotations */
export function labels({ version, revision, repository, seconds }: Source): Record<string, string> {
  return {
    'org.opencontainers.image.created': new Date(seconds * 1_000).toISOString(),
    'org.opencontainers.image.description':
      'Self-hosted backend for apps that give their users wallets: identity, wallets, delegated sessions, signed webhooks',
    'org.opencontainers.image.licenses': 'Apache-2.0',
    'org.opencontainers.image.revision': revision,
    ...(repository === null ? {} : { 'org.opencontainers.image.source': repository }),
    'org.opencontainers.image.title': 'halfkey',
    'org.opencontainers.image.version': version,
  }
}

/** How a container of this image runs. `Healthcheck` is an extension that Docker and Podman read and Kubernetes does not. */
export function imageConfig(source: Source): object {
  return {
    created: new Date(source.seconds * 1_000).toISOString(),
    config: {
      User: USER,
      ExposedPorts: { [`${ENVIRONMENT.PORT}/tcp`]: {} },
      Env: ['PATH=/usr/bin', ...Object.entries(ENVIRONMENT).map(([name, value]) => `${name}=${value}`)],
      Entrypoint: ['/usr/bin/halfkey'],
      Cmd: ['serve'],
      WorkingDir: '/opt/halfkey',
      StopSignal: 'SIGTERM',
      Healthcheck: {
        Test: ['CMD', '/usr/bin/node', '--eval', PROBE],
        Interval: 10 * SECOND_NS,
        Timeout: 3 * SECOND_NS,
        StartPeriod: 30 * SECOND_NS,
      },
      Labels: labels(source),
    },
  }
}

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const REPOSITORY = fileURLToPath(new URL('../../../../', import.meta.url))
/** The folder of the chart. */
export const CHART = join(REPOSITORY, 'deploy/chart')
const VERSION = 'v3.22.0'
/** The version of Kubernetes that Helm assumes without a cluster; a build that is not told assumes 1.20. */
const LINKED = ['chartutil', 'lint/rules'].flatMap((name) =>
  Object.entries({ k8sVersionMajor: 1, k8sVersionMinor: 37 }).map(
    ([variable, value]) => `-X helm.sh/helm/v3/pkg/${name}.${variable}=${value}`,
  ),
)

/** Helm in the folder of downloads. Go builds it there the first time, which takes some minutes. */
export function installedHelm(): string {
  const folder = join(REPOSITORY, '.cache/helm', VERSION)
  const path = join(folder, 'helm')
  if (!existsSync(path))
    execFileSync('go', ['install', '-ldflags', `-s -w ${LINKED.join(' ')}`, `helm.sh/helm/v3/cmd/helm@${VERSION}`], {
      env: { ...process.env, GOBIN: folder, CGO_ENABLED: '0' },
      stdio: 'inherit',
    })
  return path
}

/** Runs Helm. @returns what it printed; on failure, the error has it as `stderr` */
export function helm(...args: string[]): string {
  return execFileSync(installedHelm(), args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

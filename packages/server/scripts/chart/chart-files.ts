import { SETTINGS } from '../../src/platform/config.ts'
import type { Setting } from '../../src/platform/settings.ts'

/** Settings that the chart sets itself, from its other values. */
export const CHART_SETTINGS = [
  'DATABASE_URL',
  'HALFKEY_DATABASE_CONNECTIONS',
  'HALFKEY_KEK_FILE',
  'HALFKEY_METRICS_PORT',
  'HALFKEY_MIGRATE',
  'HALFKEY_PUBLIC_URL',
  'HALFKEY_ROLE',
  'PORT',
]
/** Settings that have no place in a pod: the environment, and what needs a folder that stays. */
const NOT_IN_PODS = ['HALFKEY_DATA_DIR', 'HALFKEY_ENV', 'HALFKEY_INSECURE_DEV']

const CHART = 'deploy/chart'

interface ValuesSchema {
  properties: Record<'env' | 'secretEnv', { propertyNames: { anyOf: [{ enum: string[] }, ...unknown[]] } }>
}

/** The schema of the chart's values, with the present names of settings: a wrong name is refused before anything is installed. */
function valuesSchema(text: string): string {
  const schema = JSON.parse(text) as ValuesSchema
  const names = (secret: boolean) =>
    Object.values<Setting<unknown>>(SETTINGS)
      .filter((each) => (each.secret ?? false) === secret)
      .map(({ env }) => env)
      .filter((name) => !CHART_SETTINGS.includes(name) && !NOT_IN_PODS.includes(name))
      .sort()
  schema.properties.env.propertyNames.anyOf[0].enum = names(false)
  schema.properties.secretEnv.propertyNames.anyOf[0].enum = names(true)
  return `${JSON.stringify(schema, null, 2)}\n`
}

/** Both versions of a chart are the release's. */
const withVersion = (text: string, version: string) => text.replace(/^(version|appVersion): .*$/gm, `$1: ${version}`)

/** The chart's files that follow from others. @param read the text of a file of the repository */
export function chartFiles(read: (path: string) => string | null): { path: string; text: string }[] {
  const { version } = JSON.parse(read('packages/server/package.json') ?? '') as { version: string }
  return [
    { path: `${CHART}/Chart.yaml`, text: withVersion(read(`${CHART}/Chart.yaml`) ?? '', version) },
    { path: `${CHART}/values.schema.json`, text: valuesSchema(read(`${CHART}/values.schema.json`) ?? '') },
    // A chart contains only files of its own folder.
    { path: `${CHART}/files/alerts.yaml`, text: read('deploy/alerts.yaml') ?? '' },
  ]
}

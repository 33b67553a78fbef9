// `npm run chart:test`: what Helm makes of the chart. Not part of `npm test`, because Go builds Helm for minutes the first time.
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { BlockList } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { CHART, helm, installedHelm } from '../../scripts/chart/helm.ts'
import { readKubernetesSchemas } from '../../scripts/chart/kubernetes-schemas.ts'
import { loadConfig } from '../../src/config.ts'
import { newApiKey } from '../../src/platform/security/api-key.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const SCRIPT = join(ROOT, 'packages/server/scripts/chart/chart.ts')
const BUILD_MS = 900_000
const FILES = globSync(join(ROOT, 'deploy/kubernetes/values-*.yaml')).map((path) => basename(path))

type Labels = Record<string, string>
interface Variable {
  name: string
  value?: string
  valueFrom?: { secretKeyRef: { name: string; key: string } }
}
interface Pod {
  metadata: { labels: Labels }
  spec: {
    containers: {
      args: string[]
      env: Variable[]
      ports?: { name: string }[]
      image: string
      [field: string]: unknown
    }[]
    volumes: { secret?: { secretName: string; defaultMode: number } }[]
    terminationGracePeriodSeconds?: number
    [field: string]: unknown
  }
}
interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; labels: Labels; annotations?: Labels }
  // Each kind has its own; the schemas say that it is right.
  spec: { template?: Pod; [field: string]: unknown }
}

const values = (file: string) => join(ROOT, 'deploy/kubernetes', file)

/** What the chart makes. */
function render(args: string[], chart = CHART): Manifest[] {
  const text = helm('template', 'prod', chart, '--namespace', 'wallets', ...args)
  return parseAllDocuments(text, { version: '1.1' }).map((document) => document.toJS() as Manifest)
}
const fromFile = (file: string) => render(['-f', values(file)])
const of = (manifests: Manifest[], kind: string, end = '') =>
  manifests.filter((each) => each.kind === kind && each.metadata.name.endsWith(end))
const pods = (manifests: Manifest[]) =>
  manifests.flatMap(({ spec }) => (spec.template === undefined ? [] : [spec.template]))
const selects = (selector: Labels, labels: Labels) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value)

const { kinds, definitions } = readKubernetesSchemas()
const ajv = new Ajv({ strict: false, allErrors: true })
for (const [id, schema] of Object.entries(kinds)) ajv.addSchema({ ...schema, definitions }, id)
const check = (manifest: Manifest) => {
  const id = `${manifest.apiVersion} ${manifest.kind}`
  const accepts = ajv.getSchema(id)
  if (accepts === undefined) return [`no schema for ${id}`]
  return accepts(manifest)
    ? []
    : (accepts.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

beforeAll(() => {
  installedHelm()
}, BUILD_MS)

describe('the chart', () => {
  test('the check of manifests sees a field that is not there, and a type that is wrong', () => {
    const [deployment] = of(fromFile('values-minimal.yaml'), 'Deployment')
    const changed = { ...deployment!, spec: { ...deployment!.spec, replicas: 'two', replica: 2 } }
    expect(check(changed)).toEqual(['/spec must NOT have additional properties', '/spec/replicas must be integer'])
  })

  describe.each(FILES)('with %s', (file) => {
    test('has no complaint of helm lint, and makes manifests that Kubernetes understands', () => {
      expect(helm('lint', CHART, '-f', values(file))).toContain('0 chart(s) failed')
      const manifests = fromFile(file)
      const wrong = manifests.flatMap((each) =>
        check(each).map((what) => `${each.kind} ${each.metadata.name}: ${what}`),
      )
      expect(wrong).toEqual([])
      expect(manifests.length).toBeGreaterThan(8)
      const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
      expect(names).toEqual([...new Set(names)])
    })

    test('starts pods that the service can be started in, without rights', () => {
      const key = newApiKey('secret')
      const secrets: Record<string, string> = {
        DATABASE_URL: 'postgres://postgres/halfkey',
        HALFKEY_ADMIN_KEY: key,
        REDIS_URL: 'redis://redis',
      }
      for (const { spec } of pods(fromFile(file))) {
        const [container] = spec.containers
        const { env = [], args, image, ports = [] } = container!
        expect(env.map(({ name }) => name)).toEqual([...new Set(env.map(({ name }) => name))])
        const config = loadConfig({
          HALFKEY_ENV: 'production',
          HOST: '0.0.0.0',
          ...Object.fromEntries(env.map(({ name, value }) => [name, value ?? secrets[name] ?? 'secret'])),
        })
        expect(config.unknown).toEqual([])
        if (args[0] === 'serve') {
          expect([config.migrate, ports.map(({ name }) => name)]).toEqual([false, ['http', 'metrics']])
          // The service ends by itself within ten seconds.
          expect(spec.terminationGracePeriodSeconds).toBeGreaterThan(10)
          expect(config.drainMs).toBeLessThan(9_000)
          expect(container).toMatchObject({
            livenessProbe: { httpGet: { path: '/healthz' } },
            readinessProbe: { httpGet: { path: '/readyz' } },
          })
        } else expect([args, config.role]).toEqual([['migrate'], 'all'])
        expect(image).not.toMatch(/:latest$|:$/)
        expect(container!.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        })
        expect(spec).toMatchObject({
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 1_000,
            fsGroup: 1_000,
            seccompProfile: { type: 'RuntimeDefault' },
          },
        })
        expect(spec.volumes[0]?.secret).toMatchObject({ secretName: 'halfkey-kek', defaultMode: 0o440 })
      }
    })

    test('whatever selects pods selects those it is meant for', () => {
      const manifests = fromFile(file)
      const all = pods(manifests).map(({ metadata }) => metadata.labels)
      const chosen = (selector: Labels) =>
        all.filter((labels) => selects(selector, labels)).map((labels) => labels['app.kubernetes.io/component'])
      const [service] = of(manifests, 'Service', 'prod-halfkey')
      expect(chosen(service!.spec.selector as Labels)).toEqual(['api'])
      for (const kind of ['Deployment', 'PodDisruptionBudget', 'NetworkPolicy'])
        for (const { spec, metadata } of of(manifests, kind)) {
          const { matchLabels } = (spec.selector ?? spec.podSelector) as { matchLabels: Labels }
          expect([kind, chosen(matchLabels)]).toEqual([kind, [metadata.labels['app.kubernetes.io/component']]])
        }
      for (const { spec } of of(manifests, 'HorizontalPodAutoscaler')) {
        const { name } = spec.scaleTargetRef as { name: string }
        const [target] = of(manifests, 'Deployment', name)
        // A number of replicas would undo what the autoscaler did with every upgrade.
        expect(target?.spec.replicas).toBeUndefined()
      }
    })

    test('pods may call public addresses, and neither private ones nor the metadata service', () => {
      for (const { spec, metadata } of of(fromFile(file), 'NetworkPolicy')) {
        const rules = spec.egress as {
          to?: { ipBlock?: { cidr: string; except?: string[] } }[]
          ports?: { port: number }[]
        }[]
        const world = rules.flatMap(({ to = [] }) =>
          to.flatMap(({ ipBlock }) => (ipBlock?.cidr === '0.0.0.0/0' ? [ipBlock] : [])),
        )
        expect(world.length, metadata.name).toBe(metadata.name.endsWith('migrate') ? 0 : 1)
        const closed = new BlockList()
        for (const each of world[0]?.except ?? []) closed.addSubnet(each.split('/')[0]!, Number(each.split('/')[1]))
        for (const address of world.length === 0
          ? []
          : ['169.254.169.254', '10.1.2.3', '172.20.0.1', '192.168.1.1', '100.100.100.200', '127.0.0.1'])
          expect(closed.check(address), address).toBe(true)
        expect([closed.check('1.1.1.1'), closed.check('93.184.216.34')]).toEqual([false, false])
        // Port 80, where metadata services listen, is open to nobody.
        expect(rules.every(({ ports = [] }) => ports.length > 0 && ports.every(({ port }) => port !== 80))).toBe(true)
      }
    })
  })

  test('the migration runs before the pods are changed', () => {
    const [job] = of(fromFile('values-cloudnative-pg.yaml'), 'Job')
    expect(job?.metadata.annotations?.['helm.sh/hook']).toBe('pre-install,pre-upgrade')
    expect(job?.spec.template?.spec.containers[0]?.env).toContainEqual({
      name: 'DATABASE_URL',
      valueFrom: { secretKeyRef: { name: 'halfkey-db-app', key: 'uri' } },
    })
  })

  test('the rules are those of deploy/alerts.yaml, and the queue is measured by a metric that they use', () => {
    const manifests = fromFile('values-full.yaml')
    const alerts = readFileSync(join(ROOT, 'deploy/alerts.yaml'), 'utf8')
    expect(of(manifests, 'PrometheusRule')[0]?.spec).toEqual(parse(alerts))
    const [scaler] = of(manifests, 'HorizontalPodAutoscaler', 'worker')
    const [queue, cpu] = scaler!.spec.metrics as { type: string; external?: { metric: { name: string } } }[]
    expect([queue?.type, cpu?.type]).toEqual(['External', 'Resource'])
    expect(alerts).toContain(`max(${queue?.external?.metric.name})`)
  })

  test('what is packaged makes the same, with the image as its default', (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'halfkey-chart-test-'))
    context.onTestFinished(() => rmSync(folder, { recursive: true }))
    const image = `registry.example.com:5000/team/halfkey@sha256:${'ab'.repeat(32)}`
    execFileSync(process.execPath, [SCRIPT, 'package', '--out', folder, '--image', image], { stdio: 'ignore' })
    const [archive = ''] = globSync(join(folder, 'halfkey-*.tgz'))
    const manifests = render(['-f', values('values-minimal.yaml')], archive)
    expect(pods(manifests).map(({ spec }) => spec.containers[0]?.image)).toEqual([image, image, image])
    expect(manifests.map(({ kind }) => kind)).toEqual(fromFile('values-minimal.yaml').map(({ kind }) => kind))
  })

  test('the notes name the commands for what was installed', (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'halfkey-chart-test-'))
    context.onTestFinished(() => rmSync(folder, { recursive: true }))
    cpSync(CHART, folder, { recursive: true })
    // Without a cluster, Helm shows no notes: a template takes them in.
    const include = 'notes: |\n{{ include "halfkey/templates/NOTES.txt" . | indent 2 }}\n'
    writeFileSync(join(folder, 'templates/notes.yaml'), include)
    const notes = (file: string) =>
      helm('template', 'prod', folder, '-n', 'wallets', '-f', values(file), '-s', 'templates/notes.yaml')
    expect(notes('values-minimal.yaml')).toMatch(
      /exec deploy\/prod-halfkey-api -- halfkey doctor[\s\S]*up to 84 database/,
    )
    expect(notes('values-minimal.yaml')).toContain('grep HALFKEY_KEY')
    expect(notes('values-full.yaml')).not.toMatch(/HALFKEY_KEY|TRUSTED_PROXIES|REDIS_URL/)
  })

  test('a wrong value is refused with its name', () => {
    const refusal = (...args: string[]) => {
      try {
        return helm('template', 'prod', CHART, ...args)
      } catch (error) {
        return String((error as { stderr: unknown }).stderr)
      }
    }
    for (const name of ['/publicUrl', '/database/existingSecret', '/kek/existingSecret'])
      expect(refusal()).toContain(name)
    expect(refusal('-f', values('values-minimal.yaml'), '--set', 'env.HALFKEY_RETENTON=14d')).toContain(
      'HALFKEY_RETENTON',
    )
  })
})

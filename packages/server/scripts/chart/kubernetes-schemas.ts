// Writes the schemas that the chart's manifests are checked against, out of pinned Go modules: `npm run chart -- schemas`.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'

const TARGET = fileURLToPath(new URL('kubernetes-schemas.json', import.meta.url))

const KUBERNETES = 'k8s.io/kubernetes@v1.37.2'
const GATEWAY = 'sigs.k8s.io/gateway-api@v1.7.0'
const PROMETHEUS = 'github.com/prometheus-operator/prometheus-operator@v0.85.0'

/** Kinds of Kubernetes itself that the chart makes, by the file of their group. */
const BUILT_IN: Record<string, readonly string[]> = {
  api__v1: ['Service'],
  apis__apps__v1: ['Deployment'],
  apis__autoscaling__v2: ['HorizontalPodAutoscaler'],
  apis__batch__v1: ['Job'],
  apis__networking__v1: ['Ingress', 'NetworkPolicy'],
  apis__policy__v1: ['PodDisruptionBudget'],
}
/** The group's own name in file names. */
const GROUP_FILES: Record<string, string> = { apis__networking__v1: 'apis__networking.k8s.io__v1' }

/** Definitions of kinds that extensions add. */
const CUSTOM: readonly [module: string, path: string][] = [
  [GATEWAY, 'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml'],
  [PROMETHEUS, 'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml'],
  [PROMETHEUS, 'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml'],
]

type Schema = { [key: string]: unknown }

/** A file of a Go module, whose checksum Go verifies. The zip is read: some modules cannot be unpacked by an older Go. */
function moduleFile(module: string, path: string): string {
  const told = execFileSync('sh', ['-c', 'cd /; go mod download -json "$0" || true', module], { encoding: 'utf8' })
  const { Zip: zip } = JSON.parse(told) as { Zip?: string }
  if (zip === undefined) throw new Error(`go cannot download ${module}`)
  return execFileSync('unzip', ['-p', zip, `${module}/${path}`], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
}

/** Descriptions, defaults, and rules in other languages than JSON Schema. */
const DROPPED = /^(?:description|default|format|example|nullable|x-kubernetes-.*)$/

/** A schema without what a check does not read. An object that lists its fields has no others. */
function strict(value: unknown, isMapOfSchemas = false): unknown {
  if (Array.isArray(value)) return value.map((each) => strict(each))
  if (typeof value !== 'object' || value === null) return value
  const schema = value as Schema
  const kept: Schema = {}
  for (const [key, each] of Object.entries(schema)) {
    if (!isMapOfSchemas && DROPPED.test(key)) continue
    // Go's own syntax, which JSON Schema does not have.
    if (key === 'pattern' && typeof each === 'string' && each.includes('(?i)')) continue
    kept[key] =
      typeof each === 'string'
        ? each.replace('#/components/schemas/', '#/definitions/')
        : strict(each, key === 'properties')
  }
  const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true || 'additionalProperties' in schema
  if (!isMapOfSchemas && schema.properties !== undefined && !isOpen) kept.additionalProperties = false
  return kept
}

function references(value: unknown, found = new Set<string>()): Set<string> {
  if (typeof value !== 'object' || value === null) return found
  for (const [key, each] of Object.entries(value)) {
    if (key === '$ref' && typeof each === 'string') found.add(each.slice('#/definitions/'.length))
    else references(each, found)
  }
  return found
}

const definitions: Record<string, unknown> = {}
/** Schema of each `apiVersion kind`. */
const kinds: Record<string, unknown> = {}

function addBuiltIn(group: string, names: readonly string[]): void {
  const text = moduleFile(KUBERNETES, `api/openapi-spec/v3/${GROUP_FILES[group] ?? group}_openapi.json`)
  const { schemas } = (JSON.parse(text) as { components: { schemas: Record<string, Schema> } }).components
  const add = (name: string): void => {
    if (name in definitions) return
    definitions[name] = strict(schemas[name])
    for (const each of references(definitions[name])) add(each)
  }
  for (const [name, schema] of Object.entries(schemas)) {
    const of = schema['x-kubernetes-group-version-kind'] as
      | { group: string; version: string; kind: string }[]
      | undefined
    const [id] = of ?? []
    if (id === undefined || !names.includes(id.kind) || of?.length !== 1) continue
    add(name)
    kinds[`${id.group === '' ? '' : `${id.group}/`}${id.version} ${id.kind}`] = { $ref: `#/definitions/${name}` }
  }
}

function addCustom(module: string, path: string): void {
  const { spec } = parse(moduleFile(module, path)) as {
    spec: {
      group: string
      names: { kind: string }
      versions: { name: string; storage: boolean; schema: { openAPIV3Schema: Schema } }[]
    }
  }
  for (const { name, storage, schema } of spec.versions) {
    if (!storage) continue
    const own = strict(schema.openAPIV3Schema) as { properties: Record<string, unknown> }
    own.properties.metadata = { $ref: '#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta' }
    kinds[`${spec.group}/${name} ${spec.names.kind}`] = own
  }
}

/** Writes the file of schemas. */
export function writeKubernetesSchemas(): void {
  for (const [group, names] of Object.entries(BUILT_IN)) addBuiltIn(group, names)
  for (const [module, path] of CUSTOM) addCustom(module, path)
  writeFileSync(TARGET, `${JSON.stringify({ from: [KUBERNETES, GATEWAY, PROMETHEUS], kinds, definitions })}\n`)
}

/** The schemas that are kept, from which versions they are. */
export function readKubernetesSchemas(): { from: string[]; kinds: Record<string, object>; definitions: object } {
  return JSON.parse(readFileSync(TARGET, 'utf8'))
}

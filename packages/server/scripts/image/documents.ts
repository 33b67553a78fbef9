import type { Material } from './platforms.ts'

/** Where the image comes from. */
export interface Source {
  version: string
  /** The commit that was built; with `-dirty` if files differed from it. */
  revision: string
  /** The address of the repository, if package.json has one. */
  repository: string | null
  /** Seconds since 1970: the time of every file, and of the image. */
  seconds: number
}

const SHA256 = 'sha256:'

function licences(of: Material['licences']) {
  if (typeof of === 'string') return { licenses: [{ expression: of }] }
  return of.length === 0 ? {} : { licenses: of.map((name) => ({ license: { name } })) }
}

/** A bill of materials, CycloneDX 1.6. It has no serial number and no time of its making: the same image has the same bill. */
export function billOfMaterials(source: Source, platform: string, materials: readonly Material[]) {
  const components = [...materials]
    .sort((a, b) => (a.purl < b.purl ? -1 : a.purl > b.purl ? 1 : 0))
    .filter(({ purl }, at, all) => purl !== all[at - 1]?.purl)
    .map(({ purl, name, version, licences: of, hashes }) => ({
      type: 'library',
      'bom-ref': purl,
      name,
      version,
      purl,
      ...licences(of),
      hashes: Object.entries(hashes).map(([alg, content]) => ({ alg, content })),
    }))
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      timestamp: new Date(source.seconds * 1_000).toISOString(),
      component: {
        type: 'container',
        'bom-ref': 'image',
        name: 'halfkey',
        version: source.version,
        properties: [{ name: 'platform', value: platform }],
        licenses: [{ license: { id: 'Apache-2.0' } }],
      },
    },
    components,
    dependencies: [{ ref: 'image', dependsOn: components.map(({ purl }) => purl) }],
  }
}

const STATEMENT = 'https://in-toto.io/Statement/v1'
export const PREDICATES = { bill: 'https://cyclonedx.org/bom', provenance: 'https://slsa.dev/provenance/v1' } as const

/** An in-toto statement about one image manifest. */
export function statement(digest: string, predicateType: string, predicate: object) {
  const subject = [{ name: 'halfkey', digest: { sha256: digest.slice(SHA256.length) } }]
  return { _type: STATEMENT, subject, predicateType, predicate }
}

/** How the image was made, SLSA provenance 1.0: from which commit, and of which packages. */
export function provenance(source: Source, platform: string, builder: string, materials: readonly Material[]) {
  const hexDigests = (hashes: Material['hashes']) =>
    Object.fromEntries(Object.entries(hashes).map(([name, value]) => [name.toLowerCase().replace('-', ''), value]))
  const [commit = ''] = source.revision.split('-')
  return {
    buildDefinition: {
      buildType: 'urn:halfkey:image:1',
      externalParameters: {
        version: source.version,
        platform,
        revision: source.revision,
        sourceDateEpoch: source.seconds,
      },
      resolvedDependencies: [
        { uri: source.repository ?? 'urn:halfkey:source', digest: { gitCommit: commit } },
        ...materials.map(({ purl, hashes }) => ({ uri: purl, digest: hexDigests(hashes) })),
      ],
    },
    runDetails: { builder: { id: builder } },
  }
}

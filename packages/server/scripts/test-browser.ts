// Runs the browser tests where there is a Chromium, and says so where there is none.
// npm run test:browser [-- --smoke] [-- <vitest's arguments>]
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { findChromium } from '../test/browser/chromium.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

if (findChromium() === undefined) {
  console.log(
    'No Chromium was found: the browser tests did not run. On Debian: apt-get install chromium-headless-shell',
  )
  process.exit(0)
}
const args = process.argv.slice(2)
const isSmoke = args.includes('--smoke')
const passedOn = isSmoke
  ? [...args.filter((arg) => arg !== '--smoke'), '--tags-filter=smoke', '--hide-skipped-tests']
  : args
const { status } = spawnSync('vitest', ['run', '--config', 'vitest.browser.config.ts', ...passedOn], {
  cwd: ROOT,
  stdio: 'inherit',
  env: { ...process.env, HALFKEY_SMOKE: isSmoke ? '1' : '0' },
})
process.exit(status ?? 1)

import { defineConfig } from 'vitest/config'

const isSmoke = process.env.HALFKEY_SMOKE === '1'

// biome-ignore lint/style/noDefaultExport: the runner asks for one
export default defineConfig({
  test: {
    include: ['packages/server/test/browser/**/*.browser.ts'],
    globalSetup: ['packages/server/test/harness/global-setup.ts'],
    tags: [{ name: 'smoke', description: 'What npm test runs: one or two of each family of pages.' }],
    provide: { everySize: !isSmoke, everyRoute: false },
    // All files share one Chromium, and load the service once. Side by side two would only wait for each other.
    isolate: false,
    fileParallelism: false,
    // On a busy machine a browser may draw no frame for half a minute, and then no click lands.
    retry: 1,
    testTimeout: 240_000,
    hookTimeout: 240_000,
  },
})

import { defineConfig } from 'vitest/config'

// biome-ignore lint/style/noDefaultExport: the runner asks for one
export default defineConfig({
  test: {
    include: ['packages/server/test/browser/**/*.browser.ts'],
    globalSetup: ['packages/server/test/harness/global-setup.ts'],
    // A browser and a service each: side by side they would only wait for each other.
    fileParallelism: false,
    // On a busy machine a browser may draw no frame for half a minute, and then no click ever lands.
    retry: 1,
    testTimeout: 240_000,
    hookTimeout: 240_000,
  },
})

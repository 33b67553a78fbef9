import { defineConfig } from 'vitest/config'

/** Tests that read sources and lists and start nothing: `npm run check` runs them. Those of `npm test` include them. */
// biome-ignore lint/style/noDefaultExport: the runner asks for one
export default defineConfig({
  test: {
    include: [
      'packages/server/test/guards/architecture.test.ts',
      'packages/server/test/guards/email-languages.test.ts',
      'packages/server/test/guards/plain-words.test.ts',
      'packages/server/test/guards/records.test.ts',
      'packages/server/test/guards/roles.test.ts',
      'packages/server/test/guards/table-owners.test.ts',
      'packages/sdk/test/operations.test.ts',
      'packages/sdk/test/package.test.ts',
    ],
    isolate: false,
    maxWorkers: 1,
    testTimeout: 120_000,
  },
})

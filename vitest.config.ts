import { defineConfig } from 'vitest/config'

/** What takes long: races, faults, killed processes, memory, every way of going wrong. `npm run test:all` runs them too. */
const LONG = 'packages/*/{src,test}/**/*.long.test.ts'
/** Tests that run for a few representative endpoints in `npm test`, and in the long run for every one (test/matrix.ts). */
const MATRICES = ['**/every-endpoint.test.ts', '**/every-endpoint-input.test.ts', '**/dashboard-routes.test.ts']

const shared = {
  globalSetup: ['packages/server/test/harness/global-setup.ts'],
  testTimeout: 120_000,
  hookTimeout: 180_000,
  // The service is loaded once for each worker, not for each file: whatever a test fakes, it puts back.
  isolate: false,
}

export default defineConfig({
  test: {
    // Tests also wait for timers and the database, so that a third worker finds time on two cores.
    maxWorkers: 3,
    projects: [
      {
        test: {
          ...shared,
          name: 'ordinary',
          include: ['packages/*/{src,test}/**/*.test.ts'],
          exclude: [LONG],
          provide: { everyRoute: false },
        },
      },
      // What builds artefacts: `npm run image:test` and `npm run chart:test`, which no other run includes.
      { test: { ...shared, name: 'image', include: ['packages/server/test/artefacts/image.built.ts'] } },
      { test: { ...shared, name: 'chart', include: ['packages/server/test/artefacts/chart.built.ts'] } },
      { test: { ...shared, name: 'long', include: [LONG, ...MATRICES], provide: { everyRoute: true } } },
    ],
  },
})

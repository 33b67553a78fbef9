import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

/** A module of the package with which a wallet's user signs. */
const sourceOf = (path: string) => fileURLToPath(new URL(`../keys/src/${path}`, import.meta.url))

/*
 * What the hosted page loads when somebody opens their wallet, and not before: `keys.js`, and `canton.js` for a wallet on Canton. Both are
 * the package as it is, without a page around them.
 */
export default defineConfig({
  publicDir: false,
  build: {
    outDir: fileURLToPath(new URL('../server/assets/keys/', import.meta.url)),
    emptyOutDir: true,
    rolldownOptions: {
      input: { keys: sourceOf('index.ts'), canton: sourceOf('canton/index.ts') },
      preserveEntrySignatures: 'strict',
      // What Node would need before it had WebCrypto: never loaded in a browser.
      external: ['crypto'],
      output: { entryFileNames: '[name].js', chunkFileNames: '[name].js' },
    },
    target: 'es2023',
    modulePreload: false,
    reportCompressedSize: false,
  },
})

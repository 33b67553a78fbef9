import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, gzipSync } from 'node:zlib'
import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

const OUT = fileURLToPath(new URL('../server/assets/dashboard/', import.meta.url))

/** Leaves each script and style beside its compressed form, so that no request waits for compressing. */
const compressed: Plugin = {
  name: 'halfkey-compressed',
  apply: 'build',
  writeBundle() {
    const folder = join(OUT, 'assets')
    for (const name of readdirSync(folder).filter((each) => /\.(js|css)$/.test(each)))
      writeFileSync(
        join(folder, `${name}.gz`),
        gzipSync(readFileSync(join(folder, name)), { level: constants.Z_BEST_COMPRESSION }),
      )
  },
}

export default defineConfig({
  base: '/dashboard/',
  plugins: [react(), tailwind(), compressed],
  resolve: { alias: { '@halfkey/sdk': fileURLToPath(new URL('../sdk/src/index.ts', import.meta.url)) } },
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: 'es2023',
    // Colours are written for both schemes at once, by light-dark(), which older targets would have spelt out.
    cssTarget: ['chrome125', 'safari18', 'firefox125'],
    // Everything of a page comes from its own files: a strict policy lets no data: script or style in.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // What most pages share is one file instead of twenty small ones.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'shared', minShareCount: 12 }] } } },
    chunkSizeWarningLimit: 800,
  },
  // With the Host that the browser sent: the server refuses calls whose Origin is another than their Host.
  server: {
    proxy: {
      '/dashboard/api': { target: process.env.HALFKEY_URL ?? 'http://127.0.0.1:8080', changeOrigin: false },
    },
  },
})

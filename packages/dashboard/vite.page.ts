import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, gzipSync } from 'node:zlib'
import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import type { Plugin, UserConfig } from 'vite'

/** Leaves each script and style beside its compressed form, so that no request waits for compressing. */
function compressed(out: string): Plugin {
  return {
    name: 'halfkey-compressed',
    apply: 'build',
    writeBundle() {
      const folder = join(out, 'assets')
      for (const name of readdirSync(folder).filter((each) => /\.(js|css)$/.test(each)))
        writeFileSync(
          join(folder, `${name}.gz`),
          gzipSync(readFileSync(join(folder, name)), { level: constants.Z_BEST_COMPRESSION }),
        )
    },
  }
}

/** Gives a page the name under which the server looks for it. */
function asIndex(out: string, html: string): Plugin {
  return {
    name: 'halfkey-as-index',
    apply: 'build',
    writeBundle() {
      if (html !== 'index.html') renameSync(join(out, html), join(out, 'index.html'))
    },
  }
}

/** The build of one of the pages, which share no file: each has its path, its folder in the server and its bundle. */
export function pageConfig(name: 'dashboard' | 'portal', html: string): UserConfig {
  const out = fileURLToPath(new URL(`../server/assets/${name}/`, import.meta.url))
  return {
    base: `/${name}/`,
    plugins: [react(), tailwind(), compressed(out), asIndex(out, html)],
    resolve: { alias: { '@halfkey/sdk': fileURLToPath(new URL('../sdk/src/index.ts', import.meta.url)) } },
    build: {
      outDir: out,
      emptyOutDir: true,
      rolldownOptions: {
        input: fileURLToPath(new URL(html, import.meta.url)),
        // What most pages share is one file instead of twenty small ones.
        output: { codeSplitting: { groups: [{ name: 'shared', minShareCount: 20 }] } },
      },
      target: 'es2023',
      // Colours are written for both schemes at once, by light-dark(), which older targets would have spelt out.
      cssTarget: ['chrome125', 'safari18', 'firefox125'],
      // Everything of a page comes from its own files: a strict policy lets no data: script or style in.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      chunkSizeWarningLimit: 800,
    },
    // With the Host that the browser sent: the server refuses calls whose Origin is another than their Host.
    server: {
      proxy: {
        [`/${name}/api`]: { target: process.env.HALFKEY_URL ?? 'http://127.0.0.1:8080', changeOrigin: false },
      },
    },
  }
}

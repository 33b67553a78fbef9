import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'

const SOURCES = fileURLToPath(new URL('../src/', import.meta.url))
const SUBPATHS = ['browser', 'react', 'express', 'fastify', 'fetch']

/** The package's names, led to its sources. */
export const FROM_SOURCES = {
  ...Object.fromEntries(SUBPATHS.map((name) => [`@halfkey/sdk/${name}`, `${SOURCES}${name}.ts`])),
  '@halfkey/sdk': `${SOURCES}index.ts`,
}

export interface BundleOptions {
  /** Where names lead to; those that are not here are looked up as usual. */
  alias?: Record<string, string>
  /** Left as imports. */
  external?: string[]
  platform?: 'browser' | 'node' | 'neutral'
  /** Makes a script instead of a module, which gives its exports this name. */
  globalName?: string
}

/** One minified file of everything that `input` imports. */
export async function bundle(input: string, options: BundleOptions = {}): Promise<string> {
  const built = await rolldown({
    input,
    platform: options.platform ?? 'browser',
    external: options.external ?? [],
    resolve: { alias: options.alias ?? {} },
    transform: { define: { 'process.env.NODE_ENV': '"production"' } },
    onLog(level, log, report) {
      // What is not found would be left as an import, and fail where nobody looks.
      if (log.code === 'UNRESOLVED_IMPORT') throw new Error(log.message)
      // It means nothing in a bundle that is all for the client.
      if (log.code !== 'MODULE_LEVEL_DIRECTIVE' && level === 'warn') report('warn', log)
    },
  })
  const { globalName: name } = options
  const form = name === undefined ? ({ format: 'esm' } as const) : ({ format: 'iife', name } as const)
  const { output } = await built.generate({ ...form, minify: true, codeSplitting: false })
  await built.close()
  return output[0].code
}

export const gzipBytes = (text: string) => gzipSync(text, { level: 9 }).length

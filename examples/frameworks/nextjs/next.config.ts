import { join } from 'node:path'
import type { NextConfig } from 'next'

/** This folder's packages are installed one level up. An app with its own `node_modules` needs no such line. */
const config: NextConfig = { turbopack: { root: join(import.meta.dirname, '..') } }

export default config

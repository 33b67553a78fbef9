import { defineConfig } from 'vite'
import { pageConfig } from './vite.page.ts'

export default defineConfig(pageConfig('portal', 'portal.html'))

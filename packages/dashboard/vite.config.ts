import { defineConfig } from 'vite'
import { pageConfig } from './vite.page.ts'

export default defineConfig(pageConfig('dashboard', 'index.html'))

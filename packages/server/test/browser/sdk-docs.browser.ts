import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { bundle, FROM_SOURCES } from '../../../sdk/test/bundle.ts'
import { newPerson, type Person } from './person.ts'
import { useStage } from './stage.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const PAGE = 'docs/sdk.md'

const stage = useStage()

/** The one block of the guide in this language. */
function sample(language: string): string {
  const blocks = [...readFileSync(join(ROOT, PAGE), 'utf8').matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
  const found = blocks.filter(([, of]) => of === language).map(([, , code = '']) => code)
  expect(found, `${PAGE}: ${language}`).toHaveLength(1)
  return found[0] as string
}

/** The sample as a site of its own, of an app of this service, with somebody at it. */
async function openSample(language: 'js' | 'jsx', html: string): Promise<{ ada: Person; close(): Promise<void> }> {
  const key = await (await stage.service.newTenant()).newKey({ publishable: true })
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-sample-'))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'dir')
  const entry = join(folder, `sample.${language}`)
  const code = sample(language).replaceAll('https://wallets.example.com', stage.service.url).replaceAll('hk_pk_…', key)
  writeFileSync(entry, code)
  const script = await bundle(entry, { alias: FROM_SOURCES })
  rmSync(folder, { recursive: true })
  const server = createServer((request, response) => {
    if (request.url === '/page.js') response.writeHead(200, { 'content-type': 'text/javascript' }).end(script)
    else if (request.url === '/')
      response
        .writeHead(200, {
          'content-type': 'text/html; charset=utf-8',
          // What the guide says is enough.
          'content-security-policy': `default-src 'none'; script-src 'self'; connect-src ${stage.service.url}; require-trusted-types-for 'script'`,
        })
        .end(`<!doctype html><html lang="en"><title>Shop</title>${html}<script type="module" src="/page.js"></script>`)
    else response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const ada = await newPerson(stage.browser)
  const complaints: string[] = []
  ada.page.on('pageerror', (error) => complaints.push(String(error)))
  ada.page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load')) complaints.push(message.text())
  })
  await ada.page.goto(`http://localhost:${(server.address() as AddressInfo).port}/`)
  return {
    ada,
    close: async () => {
      // Calls that are refused stand in the console of any browser; what else it complains of does not.
      await ada.context.close()
      expect(complaints).toEqual([])
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

test('the guide’s plain page signs up, out and in, as it stands there', async () => {
  const { ada, close } = await openSample('js', sample('html'))
  const { page } = ada
  const shows = (text: string) => page.locator('#who', { hasText: text }).waitFor()
  await shows('Nobody is signed in')
  await page.getByPlaceholder('Email').fill('ada@example.com')
  await press(page, 'Create an account')
  await shows('ada@example.com')
  await press(page, 'Sign out')
  await shows('Nobody is signed in')
  await press(page, 'Sign in')
  await shows('ada@example.com')
  await close()
})

test('the guide’s React page signs up, makes a wallet, signs out and in, as it stands there', async () => {
  const { ada, close } = await openSample('jsx', '<div id="root"></div>')
  const { page } = ada
  await page.getByLabel('Email').fill('ada@example.com')
  await press(page, 'Create an account')
  await page.getByText('ada@example.com').waitFor()
  await press(page, 'Create a wallet')
  await page.getByText(/^Wallet wal_/).waitFor()
  await press(page, 'Sign out')
  await press(page, 'Sign in')
  await page.getByText(/^Wallet wal_/).waitFor()
  await press(page, 'Sign out')
  await ada.takeAnotherDevice()
  await press(page, 'Sign in')
  await page.getByRole('alert').waitFor()
  await close()
})

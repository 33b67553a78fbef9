import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import MiniSearch from 'minisearch'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ERROR_TABLE } from '../../../scripts/errors/pages.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { sendBytes } from '../../../test/harness/raw-http.ts'
import { EVENT_TYPES } from '../../platform/events/event-catalogue.ts'
import { unescapeHtml } from '../../platform/http/pages/pages.ts'
import { createServer } from '../../platform/http/server.ts'
import { VERSION } from '../../platform/version.ts'
import { docsPages } from './routes.ts'

const DOCS = fileURLToPath(new URL('../../../../../docs/', import.meta.url))
const FILES = globSync('{,errors/,ledgers/}*.md', { cwd: DOCS }).sort()

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const get = (path: string) => call(service.url, 'GET', path)

/** Where the site has a file; `api.md` gave its name to the reference. */
function pathOf(file: string): string {
  const own: Record<string, string> = {
    'README.md': '/docs',
    'api.md': '/docs/conventions',
    'errors/README.md': '/docs/errors',
  }
  return own[file] ?? `/docs/${file.slice(0, -'.md'.length)}`
}

const attributes = (html: string, name: string) =>
  [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map(([, value]) => value as string)

const main = (html: string) => html.slice(html.indexOf('<main'), html.indexOf('</main>'))

describe('every guide and every page about an error', () => {
  test('is served without a key, as HTML that loads nothing from elsewhere and runs no script of its own', async () => {
    expect(FILES.length).toBeGreaterThan(100)
    for (const file of FILES) {
      const page = await get(pathOf(file))
      expect([page.status, page.headers.get('content-type')], file).toEqual([200, 'text/html; charset=utf-8'])
      const policy = (page.headers.get('content-security-policy') ?? '').split(/;\s*/)
      for (const directive of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"])
        expect(policy, file).toContain(directive)
      expect(page.text, file).not.toMatch(
        /<script>|\son\w+="|\sstyle="|<img(?! src="\/docs\/assets\/[\w-]+\.png" alt="[^"]+")|<iframe/,
      )
      for (const source of attributes(page.text, 'src')) expect(source, file).toMatch(/^\/docs\/assets\//)
      const [, title = 'no title'] = /^# (.+)$/m.exec(readFileSync(DOCS + file, 'utf8')) ?? []
      const [, shown = ''] = /<h1 id="[^"]+"><a href="#[^"]+">(.*?)<\/a><\/h1>/.exec(page.text) ?? []
      expect(shown.replaceAll('&amp;', '&').replaceAll('&#39;', "'"), file).toBe(title)
    }
  })

  test('has only links that lead somewhere, to the section where one is named', async () => {
    const pages = new Map<string, string>()
    for (const file of FILES) pages.set(pathOf(file), (await get(pathOf(file))).text)
    const dead: string[] = []
    // Of pages that are not guides; the reference redirects to where its own assets are.
    const others = new Map<string, boolean>()
    const isThere = async (pathname: string) => {
      const known = others.get(pathname) ?? (await fetch(service.url + pathname)).ok
      others.set(pathname, known)
      return known
    }
    for (const [path, html] of pages) {
      for (const href of attributes(html, 'href')) {
        if (/^(https?:|mailto:|data:)/.test(href)) continue
        const { pathname, hash } = new URL(href, `${service.url}${path}`)
        const target = pages.get(pathname)
        if (target === undefined) {
          if (!(await isThere(pathname))) dead.push(`${path} → ${href}`)
        } else if (hash !== '' && !attributes(target, 'id').includes(decodeURIComponent(hash.slice(1))))
          dead.push(`${path} → ${href}`)
      }
      // What the site does not have is no link: it must be there in the repository.
      for (const href of [...html.matchAll(/title="In the repository: ([^"]+)"/g)].map(([, one]) => one as string)) {
        const file = FILES.find((one) => pathOf(one) === path) as string
        const target = new URL(href, `file://${DOCS}${file}`)
        if (globSync(fileURLToPath(target).replace(/\/$/, '')).length === 0) dead.push(`${path} → ${href}`)
      }
    }
    expect(dead).toEqual([])
  })

  test('is in the list beside every page, and knows what comes before and after it', async () => {
    const home = await get('/docs')
    const listed = attributes(home.text.slice(home.text.indexOf('<nav'), home.text.indexOf('</nav>')), 'href')
    const guides = FILES.filter((file) => !file.startsWith('errors/') && file !== 'README.md')
    for (const file of guides) expect(listed, file).toContain(pathOf(file))
    expect(listed).toContain('/docs/errors')
    // docs/README.md names each: nothing is left over.
    expect(home.text).not.toContain('<h2>More</h2>')
    let path = listed[0] as string
    for (const next of listed.slice(1)) {
      const html = (await get(path)).text
      expect(html).toContain(`<a href="${path}" aria-current="page">`)
      expect(/<a href="([^"]+)" rel="next">/.exec(html)?.[1], path).toBe(next)
      path = next
    }
  })
})

test('the home page leads to the quick start, the errors and the API reference', async () => {
  const home = await get('/docs')
  expect(home.status).toBe(200)
  for (const path of ['/docs/api', '/docs/quick-start', '/docs/errors', '/docs/event-catalogue'])
    expect(attributes(main(home.text), 'href')).toContain(path)
  expect((await fetch(`${service.url}/docs/api`)).status).toBe(200)
  const slash = await get('/docs/')
  expect([slash.status, slash.headers.get('location')]).toEqual([301, '/docs'])
})

test('the error pages are the error codes, and the catalogue has every kind of event', async () => {
  const codes = FILES.filter((file) => /^errors\/[a-z_]+\.md$/.test(file)).map((file) => file.slice(7, -3))
  expect(codes.sort()).toEqual(Object.keys(ERROR_TABLE).sort())
  const index = await get('/docs/errors')
  for (const code of codes) expect(attributes(index.text, 'href')).toContain(`/docs/errors/${code}`)
  const catalogue = await get('/docs/event-catalogue')
  const ids = attributes(catalogue.text, 'id')
  for (const type of EVENT_TYPES) expect(ids, type).toContain(type.replaceAll('.', ''))
})

test('what is not there is a 404 with links, which repeats nothing of what was asked for', async () => {
  const hostile = `<script>alert(1)</script>"onload=x`
  for (const path of [
    '/docs/nothing',
    '/docs/errors/nothing',
    '/docs/decisions/0001-deliveries-keep-their-id',
    '/docs/decisions/0001-deliveries-keep-their-id.md',
    '/docs/README.md',
    '/docs/assets/',
    '/docs/assets/nothing.js',
    '/docs/errors/',
    `/docs/${encodeURIComponent(hostile)}`,
    `/docs/${'x'.repeat(10_000)}`,
    '/docs/%2e%2e%2fpackage.json',
  ]) {
    const page = await get(path)
    expect([page.status, page.headers.get('content-type')], path).toEqual([404, 'text/html; charset=utf-8'])
    for (const link of ['/docs', '/docs/errors', '/docs/api'])
      expect(attributes(main(page.text), 'href')).toContain(link)
    expect(page.text).not.toContain('alert(1)')
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  }
})

test('no path leads out of the folder', async () => {
  for (const path of [
    '/docs/../package.json',
    '/docs/..%2f..%2fpackage.json',
    '/docs/assets/../../package.json',
    '/docs/errors/../../../etc/passwd',
  ]) {
    const bytes = `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`
    const [answer] = await sendBytes(service.url, [bytes])
    expect(answer?.status, path).toBe(404)
    expect(answer?.body, path).not.toMatch(/"workspaces"|root:/)
  }
})

test('HEAD answers as GET does, and no other method is there', async () => {
  for (const path of ['/docs', '/docs/webhooks', '/docs/errors/not_found', '/docs/assets/docs.js', '/docs/search.json'])
    expect((await call(service.url, 'HEAD', path)).status, path).toBe(200)
  for (const method of ['POST', 'PUT', 'DELETE'])
    expect((await call(service.url, method, '/docs/webhooks')).status, method).toBe(404)
})

describe('the search index', () => {
  interface Stored {
    title: string
    heading: string
    text: string
  }
  const load = async () =>
    MiniSearch.loadJSON<Stored>((await get('/docs/search.json')).text, { fields: ['heading', 'title', 'text'] })

  test('has every page, and every heading with its text', async () => {
    const index = await load()
    const inner = (html: string) => unescapeHtml(html.replace(/<[^>]+>/g, ''))
    let sections = 0
    for (const file of FILES) {
      const path = pathOf(file)
      const html = main((await get(path)).text)
      const [, title = ''] = /<h1[^>]*>(.*?)<\/h1>/.exec(html) ?? []
      expect(index.getStoredFields(path), path).toMatchObject({ title: inner(title), heading: inner(title) })
      const headings = [...html.matchAll(/<h[2-6] id="([^"]+)">(.*?)<\/h[2-6]>/g)]
      for (const [, anchor, heading = ''] of headings)
        expect(index.getStoredFields(`${path}#${anchor}`), path).toMatchObject({
          title: inner(title),
          heading: inner(heading),
        })
      sections += 1 + headings.length
    }
    expect(index.documentCount).toBe(sections)
    // Escaped on the page, and in a table or a sample.
    const text = (id: string) => (index.getStoredFields(id) as unknown as Stored).text
    expect(text('/docs/webhooks#verifying')).toContain('if (seen.has(event.id)) {')
    expect(text('/docs/webhooks#when-it-fails')).toContain('delete the dead letters DELETE /v1/webhooks/:id/deliveries')
    expect(text('/docs/errors/not_found')).not.toContain('<')
  })

  test('is small on the wire, and asked for once', async () => {
    const asked = (path: string, headers: Record<string, string>) =>
      sendBytes(service.url, [
        `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n${Object.entries(headers)
          .map(([name, value]) => `${name}: ${value}\r\n`)
          .join('')}\r\n`,
      ])
    let bytes = 0
    for (const path of ['/docs/search.json', '/docs/assets/search.js', '/docs/assets/minisearch.js']) {
      const response = await fetch(service.url + path, { headers: { 'accept-encoding': 'br' } })
      expect(response.headers.get('content-encoding'), path).toBe('br')
      const etag = response.headers.get('etag') ?? ''
      const [repeated] = await asked(path, { 'if-none-match': etag })
      expect([repeated?.status, repeated?.body], path).toEqual([304, ''])
      bytes += Number(response.headers.get('content-length'))
    }
    expect(bytes).toBeGreaterThan(0)
    expect(bytes).toBeLessThan(420_000)
  })
})

describe('at the end of a page', () => {
  const about = (html: string) => html.slice(html.indexOf('<p class="about">'), html.indexOf('</main>'))

  test('stands the version of the server', async () => {
    for (const path of ['/docs', '/docs/webhooks', '/docs/errors/not_found', '/docs/nothing'])
      expect(about((await get(path)).text), path).toContain(`Halfkey ${VERSION}<`)
  })

  test.each([
    [undefined, null],
    ['git@code.example:halfkey.git', null],
    ['git+https://code.example/halfkey/halfkey.git', 'https://code.example/halfkey/halfkey/edit/main/docs/webhooks.md'],
    ['https://code.example/halfkey', 'https://code.example/halfkey/edit/main/docs/webhooks.md'],
  ])('is a link to edit it if the repository %s has an https address', async (repository, expected) => {
    const config = { ...service.deps.config }
    const server = await createServer({ ...service.deps, config }, [], docsPages(repository ?? null))
    const { port } = await server.listen('127.0.0.1', 0)
    config.port = port
    const edit = async (path: string) =>
      attributes(about((await call(`http://127.0.0.1:${port}`, 'GET', path)).text), 'href')[0] ?? null
    expect(await edit('/docs/webhooks')).toBe(expected)
    // Written by the generator from other files.
    for (const path of ['/docs/errors/not_found', '/docs/event-catalogue', '/docs/nothing'])
      expect(await edit(path), path).toBeNull()
    await server.close()
  })
})

test('samples of one task in several languages are a group; other samples that follow each other are not', async () => {
  const groups = async (path: string) =>
    [...(await get(path)).text.matchAll(/<div class="samples">(.*?)<\/div>/gs)].map(([, inside = '']) =>
      attributes(inside, 'data-language'),
    )
  expect(await groups('/docs/webhooks')).toContainEqual(['TypeScript', 'JavaScript', 'Python', 'Go'])
  expect((await groups('/docs/agent-budget')).every((one) => String(one) === 'curl,TypeScript')).toBe(true)
  // A request and its response, a page and its script.
  expect(await groups('/docs/audit-log')).toEqual([])
  expect(await groups('/docs/sdk')).toEqual([])
})

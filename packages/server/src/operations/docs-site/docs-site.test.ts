import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ERROR_TABLE } from '../../../scripts/errors/pages.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { sendBytes } from '../../../test/harness/raw-http.ts'
import { EVENT_TYPES } from '../../platform/events/event-catalogue.ts'

const DOCS = fileURLToPath(new URL('../../../../../docs/', import.meta.url))
const FILES = globSync('{,errors/}*.md', { cwd: DOCS }).sort()

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
  for (const path of ['/docs', '/docs/webhooks', '/docs/errors/not_found', '/docs/assets/docs.js', '/docs/index.json'])
    expect((await call(service.url, 'HEAD', path)).status, path).toBe(200)
  for (const method of ['POST', 'PUT', 'DELETE'])
    expect((await call(service.url, method, '/docs/webhooks')).status, method).toBe(404)
})

test('the index for the filter names every page and heading that is there', async () => {
  const { body } = await get('/docs/index.json')
  const paths = body.map((page: { path: string }) => page.path)
  expect(new Set(paths).size).toBe(paths.length)
  for (const file of FILES.filter((one) => one !== 'README.md')) expect(paths).toContain(pathOf(file))
  for (const { path, title, headings } of body as { path: string; title: string; headings: [string, string][] }[]) {
    const html = (await get(path)).text
    const there = [...main(html).matchAll(/<h[2-4] id="([^"]+)">(.*?)<\/h[2-4]>/g)].map(([, id, inner = '']) => [
      inner
        .replace(/<[^>]+>/g, '')
        .replaceAll('&amp;', '&')
        .replaceAll('&#39;', "'")
        .replaceAll('&quot;', '"'),
      id,
    ])
    expect(headings, path).toEqual(there)
    expect(title, path).not.toBe('')
  }
  const webhooks = body.find((page: { path: string }) => page.path === '/docs/webhooks')
  expect(webhooks.headings).toContainEqual(['Changing the secret', 'changing-the-secret'])
})

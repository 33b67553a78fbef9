import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { argv, exit, stdout } from 'node:process'
import { parseArgs } from 'node:util'

/**
 * Compares the pages that people read with those of an earlier commit, so that a rewritten page loses no promise:
 *
 *   node packages/server/scripts/docs-promises.ts --since f109ad7 [--reworded file.json] [page.md …]
 *
 * Lists every number, `name`, link anchor and sentence with never, always or only of each old page with the page and line
 * where it stands now, and fails when one stands nowhere. A sentence in other words is given by `--reworded`: an object of
 * old sentence to a new one that stands on some page now, or to `gone: ` and the reason why it is no promise any more.
 */

const OWN_PAGES = [
  'README.md',
  'SECURITY.md',
  'docs',
  'packages/sdk/README.md',
  'packages/keys/README.md',
  'packages/mcp/README.md',
  'packages/server/README.md',
]

interface Place {
  page: string
  line: number
}

const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
const pagesIn = (text: string): string[] => text.split('\n').filter((name) => name.endsWith('.md'))

/** A page's lines without its code blocks, whose samples run in tests. */
function proseLines(text: string): string[] {
  let inCode = false
  return text.split('\n').map((line) => {
    if (line.startsWith('```')) inCode = !inCode
    return inCode || line.startsWith('```') ? '' : line
  })
}

const plain = (text: string): string =>
  text
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[*_`]/g, '')
    .replace(/\s+/g, ' ')
    .trim()

/** Sentences of a page that promise, each in one line without markup. */
function promises(text: string): string[] {
  const blocks = proseLines(text)
    .join('\n')
    .split(/\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )|\n(?=\|)/)
  return blocks
    .flatMap((block) => plain(block.replace(/^\s*(?:[-*]|\d+\.)\s+/, '')).split(/(?<=[.!?;:])\s+(?=[A-Z`"(])| \| /))
    .map((sentence) => sentence.replace(/^\||\|$/g, '').trim())
    .filter((sentence) => /\b(?:never|always|only)\b/i.test(sentence))
}

/** What a page names that can be found again to the letter: numbers with their unit, code spans, anchors of links. */
function tokens(text: string): string[] {
  const prose = proseLines(text).join('\n')
  const spans = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, name]) => name as string)
  const rest = prose.replace(/`[^`\n]+`/g, ' ').replace(/\]\([^)]*\)/g, '] ')
  const numbers = [...rest.matchAll(/(?<![\w.#/-])\d{1,3}(?: \d{3})+(?!\w)|(?<![\w.#/-])\d+(?:[.,:]\d+)*(?!\w)/g)].map(
    ([number]) => number,
  )
  return [...new Set([...spans, ...numbers])]
}

const anchorOf = (heading: string): string =>
  plain(heading)
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replace(/ /g, '-')

const anchors = (text: string): string[] =>
  proseLines(text)
    .filter((line) => /^#{2,6} /.test(line))
    .map((line) => anchorOf(line.replace(/^#+ /, '')))
    .concat([...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id]) => id as string))

const squeezed = (text: string): string => text.replace(/\s+/g, ' ')

function main(): number {
  const { values, positionals } = parseArgs({
    args: argv.slice(2),
    allowPositionals: true,
    options: { since: { type: 'string' }, reworded: { type: 'string', multiple: true } },
  })
  if (values.since === undefined) {
    stdout.write('Name the commit to compare with: --since <commit>\n')
    return 2
  }
  const since = values.since
  const reworded: Record<string, string> = Object.assign(
    {},
    ...(values.reworded ?? []).map((file) => JSON.parse(readFileSync(file, 'utf8'))),
  )
  const present = new Map(
    pagesIn(git('ls-files', '--cached', '--others', '--exclude-standard', ...OWN_PAGES)).map((page) => [
      page,
      readFileSync(page, 'utf8'),
    ]),
  )
  const flat = new Map([...present].map(([page, text]) => [page, squeezed(plain(proseLines(text).join('\n')))]))
  const old = pagesIn(git('ls-tree', '-r', '--name-only', since, ...OWN_PAGES)).filter(
    (page) => !page.startsWith('docs/errors/'),
  )
  const chosen = positionals.length === 0 ? old : old.filter((page) => positionals.includes(page))

  /** Where something stands: its old page first. */
  const find = (page: string, stands: (text: string) => boolean): Place | undefined => {
    for (const candidate of [page, ...present.keys()]) {
      const text = present.get(candidate)
      if (text === undefined) continue
      const line = text.split('\n').findIndex(stands)
      if (line !== -1) return { page: candidate, line: line + 1 }
    }
    return undefined
  }
  const findSentence = (page: string, sentence: string): string | undefined =>
    [page, ...flat.keys()].find((candidate) => flat.get(candidate)?.includes(squeezed(plain(sentence))))

  let missing = 0
  let found = 0
  const tell = (page: string, kind: string, what: string, place: string | undefined): void => {
    if (place === undefined) missing += 1
    else found += 1
    stdout.write(`${place === undefined ? 'MISSING' : 'ok'}\t${page}\t${kind}\t${what}\t${place ?? ''}\n`)
  }
  const at = (place: Place | undefined): string | undefined => place && `${place.page}:${place.line}`

  for (const page of chosen) {
    const text = git('show', `${since}:${page}`)
    for (const token of tokens(text))
      tell(page, 'name', token, at(find(page, (line) => line.includes(token))) ?? reworded[token])
    const now = anchors(present.get(page) ?? '')
    for (const anchor of anchors(text))
      tell(page, 'anchor', `#${anchor}`, now.includes(anchor) ? page : reworded[`${page}#${anchor}`])
    for (const sentence of promises(text)) {
      const other = reworded[sentence]
      const place = other?.startsWith('gone: ') ? other : findSentence(page, other ?? sentence)
      tell(page, 'promise', sentence, place)
    }
  }
  stdout.write(`${found} found, ${missing} missing\n`)
  return missing === 0 ? 0 : 1
}

exit(main())

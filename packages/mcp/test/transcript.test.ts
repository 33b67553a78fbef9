import { readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BOB } from '../../server/src/delegation/delegated.fixture.ts'
import { type Service, startService } from '../../server/test/harness/harness.ts'
import { begin, type Scene } from './agent.fixture.ts'

const PAGE = new URL('../../../docs/agents.md', import.meta.url)
const BEGIN = '<!-- transcript -->'
const END = '<!-- /transcript -->'
/** Set to 1, the page is written instead of compared: after a change that is meant. */
const WRITES = process.env.HALFKEY_WRITE_TRANSCRIPT === '1'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** What an agent does in the guide. */
const STEPS: [tool: string, args: object][] = [
  ['wallet_status', {}],
  ['payment_check', { to: BOB, amount: '3', symbol: 'USDX' }],
  ['payment_send', { to: BOB, amount: '3', symbol: 'USDX', reference: 'invoice 1042' }],
  ['payment_send', { to: BOB, amount: '3', symbol: 'USDX', reference: 'invoice 1042' }],
  ['payment_send', { to: BOB, amount: '8', symbol: 'USDX', reference: 'invoice 1043' }],
]

/** A text without what differs from run to run. */
function settled(text: string, { ada }: Scene): string {
  return text
    .replaceAll(ada.party, 'ada::1220…')
    .replaceAll(ada.issuer, 'issuer::1220…')
    .replaceAll(BOB, 'bob::1220…')
    .replace(/\b(dse|tx|wal)_[0-9a-z]{26}/g, '$1_…')
    .replace(/\bpay-[0-9a-f]{40}/g, 'pay-…')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '2026-11-23T09:00:00.000Z')
}

test('the transcript of the guide is what happens', async () => {
  const scene = await begin(service)
  const blocks: string[] = []
  for (const [name, args] of STEPS) {
    const { isError, data } = await scene.agent.call(name, args)
    const request = settled(`${name} ${JSON.stringify(args)}`, scene)
    const answer = settled(JSON.stringify(data, null, 2), scene)
    blocks.push(`\`\`\`text\n→ ${request}\n← ${isError ? 'isError ' : ''}${answer}\n\`\`\``)
  }
  const page = readFileSync(PAGE, 'utf8')
  const [before, rest] = page.split(BEGIN) as [string, string]
  const after = rest.split(END)[1] as string
  const written = `${before}${BEGIN}\n\n${blocks.join('\n\n')}\n\n${END}${after}`
  if (WRITES) writeFileSync(PAGE, written)
  expect(page).toBe(written)
})

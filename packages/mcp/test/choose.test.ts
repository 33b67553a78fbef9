import { describe, expect, test } from 'vitest'
import { formatAmount, parseAmount } from '../../sdk/src/paying/amount.ts'
import { chooseTransfers } from '../../sdk/src/paying/choose.ts'
import type { Holding } from '../src/agent.ts'
import { readSettings } from '../src/config.ts'

const BOB = `bob::1220${'b0'.repeat(32)}`
const holding = (amount: string, contractId = amount): Holding => ({ contractId, issuer: 'i', symbol: 'USDX', amount })
const chosen = (amounts: string[], amount: string) =>
  chooseTransfers(
    amounts.map((one) => holding(one)),
    BOB,
    parseAmount(amount) ?? 0n,
  )?.map(({ exercise }) => [exercise?.contractId, exercise?.arguments?.amount])

describe('the holdings of a payment', () => {
  test('are the smallest one that is enough', () => {
    expect(chosen(['100', '5', '7', '3'], '4')).toEqual([['5', '4']])
    expect(chosen(['5', '4'], '4')).toEqual([['4', '4']])
  })

  test('or the largest ones together, with exactly the amount', () => {
    expect(chosen(['1', '2.5', '4'], '6')).toEqual([
      ['4', '4'],
      ['2.5', '2'],
    ])
    expect(chosen(['9007199254740993', '0.0000000001'], '9007199254740993.0000000001')).toEqual([
      ['9007199254740993', '9007199254740993'],
      ['0.0000000001', '0.0000000001'],
    ])
  })

  test('or none, if all that one call can use are not enough', () => {
    expect(chosen(['1', '2'], '3.0000000001')).toBeUndefined()
    expect(chosen([], '1')).toBeUndefined()
    expect(chosen(Array(101).fill('1'), '101')).toBeUndefined()
    expect(chosen(Array(101).fill('1'), '100')).toHaveLength(100)
    // An amount of a ledger that cannot be read counts as nothing.
    expect(chosen(['x', '1e9'], '1')).toBeUndefined()
  })
})

test('amounts are whole base units, whatever their size', () => {
  for (const [text, written] of [
    ['0.0000000001', '0.0000000001'],
    ['3.50', '3.5'],
    ['9'.repeat(28), '9'.repeat(28)],
  ] as const)
    expect(formatAmount(parseAmount(text) as bigint)).toBe(written)
  expect(parseAmount('1e3')).toBeNull()
})

describe('the settings', () => {
  const token = `dst_${'a'.repeat(49)}`
  const read = (env: Record<string, string>) => readSettings({ HALFKEY_TOKEN: token, ...env })

  test.each([
    ['https://wallets.example.com', 'https://wallets.example.com/agent/api'],
    ['https://wallets.example.com/', 'https://wallets.example.com/agent/api'],
    ['https://wallets.example.com/v1', 'https://wallets.example.com/agent/api'],
    ['https://example.com/wallets/v1/', 'https://example.com/wallets/agent/api'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080/agent/api'],
    ['http://localhost:8080', 'http://localhost:8080/agent/api'],
    ['http://[::1]:8080', 'http://[::1]:8080/agent/api'],
  ])('lead from %s to the entrance for agents', (address, baseUrl) => {
    expect(read({ HALFKEY_URL: address })).toEqual({ baseUrl, token, x402Origins: new Set() })
  })

  test.each([
    ['nothing', ''],
    ['no address', 'wallets'],
    ['another protocol', 'ftp://example.com'],
    ['http to elsewhere', 'http://wallets.example.com'],
    ['http to what looks like this machine', 'http://127.0.0.1.example.com'],
    ['http to what begins like it', 'http://localhost.example.com'],
    ['credentials', 'https://ada:secret@example.com'],
    ['a query', 'https://example.com?token=secret'],
  ])('refuse %s as address', (_, address) => {
    expect(() => read({ HALFKEY_URL: address })).toThrow(/^HALFKEY_URL must/)
    expect(() => read({ HALFKEY_URL: address })).not.toThrow(/secret|dst_a/)
  })

  test('take http to elsewhere where somebody says that they trust the network', () => {
    const { baseUrl } = read({ HALFKEY_URL: 'http://halfkey:8080', HALFKEY_INSECURE_HTTP: '1' })
    expect(baseUrl).toBe('http://halfkey:8080/agent/api')
  })

  test('take origins for x402_fetch, and refuse anything else', () => {
    const listing = (list: string) => () => read({ HALFKEY_URL: 'https://example.com', HALFKEY_X402_ORIGINS: list })
    const listed = listing('http://127.0.0.1:3000, https://shop.internal')().x402Origins
    expect([...listed]).toEqual(['http://127.0.0.1:3000', 'https://shop.internal'])
    for (const wrong of [
      'shop',
      '*',
      'https://shop.internal/',
      'https://a@b.example',
      'file:///',
      'ftp://shop.internal',
    ])
      expect(listing(wrong)).toThrow(/^HALFKEY_X402_ORIGINS must/)
  })

  test('refuse what is no token, without repeating it', () => {
    for (const wrong of ['', 'hk_sk_secret', `${token}x`, ` ${token}`, `dst_${'!'.repeat(49)}`]) {
      const reading = () => readSettings({ HALFKEY_URL: 'https://example.com', HALFKEY_TOKEN: wrong })
      expect(reading).toThrow(/^HALFKEY_TOKEN must/)
      expect(reading).not.toThrow(/secret|aaaa|!!/)
    }
  })
})

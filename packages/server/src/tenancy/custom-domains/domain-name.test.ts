import { expect, test } from 'vitest'
import { HttpError } from '../../platform/http/errors.ts'
import { canonicalDomain, refuseUnownable } from './domain-name.ts'

const OWN = ['id.halfkey.example']

function outcome(text: string): string {
  try {
    const domain = canonicalDomain(text)
    refuseUnownable(domain, OWN)
    return domain
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    expect([error.status, error.details.length, error.details[0]?.field]).toEqual([400, 1, 'domain'])
    return `refused: ${error.details[0]?.code}`
  }
}

const label63 = 'a'.repeat(63)
const long = (characters: number) => `aa.${'a.'.repeat(200).slice(0, characters - 15)}.example.com`

test.each([
  ['login.example.com', 'login.example.com'],
  ['example.com', 'example.com'],
  ['  LOGIN.Example.COM.\n', 'login.example.com'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['BÜCHER.example', 'xn--bcher-kva.example'],
  ['bu\u0308cher.example', 'xn--bcher-kva.example'],
  ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
  ['straße.de', 'xn--strae-oqa.de'],
  ['例え.テスト', 'xn--r8jz45g.xn--zckzah'],
  ['a--b.example', 'a--b.example'],
  ['1.2.3.com', '1.2.3.com'],
  [`${label63}.example`, `${label63}.example`],
  ['me.github.io', 'me.github.io'],
  ['login.internal', 'login.internal'],
  ['halfkey.example', 'halfkey.example'],
  ['xid.halfkey.example', 'xid.halfkey.example'],
])('%j is %s', (text, domain) => {
  expect(outcome(text)).toBe(domain)
})

test.each([
  // What others register under.
  ['com', 'public_suffix'],
  ['co.uk', 'public_suffix'],
  ['CO.UK.', 'public_suffix'],
  ['github.io', 'public_suffix'],
  ['s3.amazonaws.com', 'public_suffix'],
  ['公司.cn', 'public_suffix'],
  ['xn--55qx5d.cn', 'public_suffix'],
  ['foo.ck', 'public_suffix'],
  // Addresses, in every notation that browsers take for one.
  ['127.0.0.1', 'ip_address'],
  ['2130706433', 'ip_address'],
  ['0x7f.1', 'ip_address'],
  ['0177.0.0.1', 'ip_address'],
  ['127.1', 'ip_address'],
  ['example.1', 'ip_address'],
  ['example.0x', 'ip_address'],
  ['1.2.3.4.', 'ip_address'],
  ['::1', 'ip_address'],
  ['[::1]', 'ip_address'],
  ['2001:db8::1', 'ip_address'],
  ['::ffff:10.0.0.1', 'ip_address'],
  // Nobody's, or the service's.
  ['localhost', 'local_name'],
  ['app.localhost', 'local_name'],
  ['intranet', 'single_label'],
  ['id.halfkey.example', 'own_host'],
  ['evil.ID.halfkey.example', 'own_host'],
  // What is written around a name.
  ['https://login.example.com', 'scheme_not_allowed'],
  ['javascript://x.example', 'scheme_not_allowed'],
  ['login.example.com/path', 'path_not_allowed'],
  ['login.example.com?x', 'path_not_allowed'],
  ['login.example.com#x', 'path_not_allowed'],
  ['login.example.com\\x', 'path_not_allowed'],
  ['me@login.example.com', 'user_info_not_allowed'],
  ['login.example.com:443', 'port_not_allowed'],
  ['*.example.com', 'wildcard_not_allowed'],
  ['_halfkey.example.com', 'underscore_not_allowed'],
  // Lengths: the record's name, nine characters longer, must fit too.
  [`${'a'.repeat(64)}.example`, 'label_too_long'],
  [`${'ü'.repeat(60)}.example`, 'label_too_long'],
  [long(245), 'too_long'],
  [long(254), 'too_long'],
  // What turns into something else.
  ['ｅxample.com', 'ambiguous_characters'],
  ['example。com', 'ambiguous_characters'],
  ['exam\u00adple.com', 'invalid_character'],
  ['\u212aelvin.com', 'ambiguous_characters'],
  ['ﬁsh.com', 'ambiguous_characters'],
  ['①.com', 'ambiguous_characters'],
  ['１２７.0.0.1', 'ip_address'],
  ['127.0.0.１', 'ambiguous_characters', 'ip_address'],
  ['ex%41mple.com', 'invalid_character'],
  ['exa\u200bmple.com', 'invalid_character'],
  ['exa\u202emple.com', 'invalid_character'],
  ['ex ample.com', 'invalid_character'],
  ['ex\tample.com', 'invalid_character'],
  // No names.
  ['a..com', 'invalid_name'],
  ['.example.com', 'invalid_name'],
  ['example.com..', 'invalid_name'],
  ['.', 'invalid_name'],
  [' ', 'invalid_name'],
  ['-a.com', 'invalid_name'],
  ['a-.com', 'invalid_name'],
  ['a!b.com', 'invalid_name'],
  ["' OR 1=1--.com", 'invalid_character'],
  ['xn--a.com', 'invalid_name'],
  ['xn--zz.com', 'invalid_name'],
  ['xn--example-.com', 'invalid_name'],
])('%j is refused as %s', (text, ...codes) => {
  expect(codes.map((code) => `refused: ${code}`)).toContain(outcome(text))
})

test('a name of 244 characters is taken', () => {
  expect(outcome(long(244))).toHaveLength(244)
})

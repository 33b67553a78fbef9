import { isIP } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import { parse } from 'tldts'
import { type HttpError, invalid } from '../../platform/http/errors.ts'

/** The label below which the record that proves a domain is published. */
export const RECORD_LABEL = '_halfkey'
/** RFC 1035, section 2.3.4. */
const NAME_CHARS_MAX = 253
const LABEL_CHARS_MAX = 63
/** The name of the record must fit, too. */
const DOMAIN_CHARS_MAX = NAME_CHARS_MAX - RECORD_LABEL.length - 1

const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/
/** Browsers read a host that ends in a number, in any notation, as an IPv4 address (URL Standard, 3.5). */
const NUMBER = /^(?:\d+|0x[0-9a-f]*)$/i

const refuse = (code: string, message: string): HttpError => invalid('domain', message, code)

/** What a host name must not contain. */
const NO_PART_OF_A_NAME: [code: string, pattern: RegExp, message: string][] = [
  [
    'scheme_not_allowed',
    /^[a-z][a-z0-9+.-]*:\/\//i,
    'Leave out the scheme: login.example.com, not https://login.example.com.',
  ],
  ['path_not_allowed', /[/\\?#]/, 'Leave out the path: only the host name is registered.'],
  ['user_info_not_allowed', /@/, 'Must be a host name, not an address with a user name.'],
  ['port_not_allowed', /:/, 'Leave out the port: a custom domain is reached by https on 443.'],
  ['wildcard_not_allowed', /\*/, 'Wildcards are not allowed. Register each domain separately.'],
  ['underscore_not_allowed', /_/, 'Host names have no underscore. Register the domain itself, not its record.'],
  ['invalid_character', /[\s%]|\p{C}/u, 'Must contain only letters, digits, hyphens and dots.'],
]

/** Whether normalisation would change a character: full-width letters, ligatures, the Kelvin sign, invisible characters. */
function isAmbiguous(character: string): boolean {
  if (character <= '\x7f') return false
  const lower = character.normalize('NFC').toLowerCase()
  return lower <= '\x7f' || lower.normalize('NFKC') !== lower
}

/** Whether a name is spelled as its punycode decodes. Labels that are punycode already are checked later. */
function isSpelledAs(lower: string, ascii: string): boolean {
  const meant = domainToUnicode(ascii).split('.')
  const given = lower.split('.')
  return given.length === meant.length && given.every((label, at) => label.startsWith('xn--') || label === meant[at])
}

function toPunycode(text: string): string {
  const lower = text.normalize('NFC').toLowerCase()
  const ascii = domainToASCII(lower)
  if (ascii === '') throw refuse('invalid_name', 'Must be a host name such as login.example.com.')
  if ([...text].some(isAmbiguous) || !isSpelledAs(lower, ascii))
    throw refuse('ambiguous_characters', `Contains characters that are read as others. Did you mean ${ascii}?`)
  return ascii
}

/** Labels with the prefix of punycode must be decodable: otherwise their appearance is unknown. */
const isDecodable = (label: string) =>
  !label.startsWith('xn--') || (domainToUnicode(label) !== label && domainToASCII(domainToUnicode(label)) === label)

function refuseLengths(name: string): void {
  if (name.length > DOMAIN_CHARS_MAX)
    throw refuse('too_long', `Must have at most ${DOMAIN_CHARS_MAX} characters, so that its record's name fits.`)
  if (name.split('.').some((label) => label.length > LABEL_CHARS_MAX))
    throw refuse('label_too_long', `Each part between dots must have at most ${LABEL_CHARS_MAX} characters.`)
}

/**
 * A name as stored and compared: lower case, punycode, no trailing dot. Does not check whether it may be registered.
 * @throws validation_failed, with a code that says why
 */
export function canonicalDomain(text: string): string {
  const name = text.trim()
  if (isIP(name.replace(/^\[|\]$/g, '')) !== 0) throw refuse('ip_address', 'Must be a host name, not an IP address.')
  for (const [code, pattern, message] of NO_PART_OF_A_NAME) if (pattern.test(name)) throw refuse(code, message)
  const bare = name.replace(/\.$/, '')
  if (NUMBER.test(bare.slice(bare.lastIndexOf('.') + 1)))
    throw refuse('ip_address', 'Must be a host name, not an IP address or a part of one.')
  // Before the conversion, which returns nothing for a name that is too long.
  refuseLengths(bare)
  const domain = toPunycode(bare)
  if (isIP(domain) !== 0) throw refuse('ip_address', 'Must be a host name, not an IP address.')
  refuseLengths(domain)
  if (!domain.split('.').every((label) => LABEL.test(label) && isDecodable(label)))
    throw refuse(
      'invalid_name',
      'Each part between dots must contain only letters, digits and, not at its ends, hyphens.',
    )
  return domain
}

const isUnder = (domain: string, host: string) => domain === host || domain.endsWith(`.${host}`)

/**
 * Refuses canonical names that nobody can register: public suffixes, names without a dot, and the service's own hosts
 * with all names below them. @throws validation_failed, with a code that says why
 */
export function refuseUnownable(domain: string, ownHosts: readonly string[]): void {
  if (isUnder(domain, 'localhost')) throw refuse('local_name', 'Must be a name that others can reach, not localhost.')
  const { publicSuffix, isIcann, isPrivate } = parse(domain, { allowPrivateDomains: true, extractHostname: false })
  if (publicSuffix === domain && (isIcann === true || isPrivate === true))
    throw refuse('public_suffix', 'This is a public suffix. Register a domain below it.')
  if (!domain.includes('.')) throw refuse('single_label', 'Must have at least one dot, such as login.example.com.')
  if (ownHosts.some((host) => isUnder(domain, host)))
    throw refuse('own_host', 'Must not be the service’s own host or a name under it.')
}

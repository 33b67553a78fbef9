import { invalid } from '../../platform/http/errors.ts'
import { URL_CHARS_MAX } from './schema.ts'

/** Whether a URL's host is a loopback address. */
export function isLoopback({ hostname }: URL): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

/**
 * A URL that a browser may be sent back to, in the normal form of browsers: other parsers read some spellings differently.
 * Does not check whose URL it is. @throws validation_failed, naming the field
 */
export function parseReturnUrl(field: string, text: string, development: boolean): URL {
  const url = URL.parse(text)
  if (url === null) throw invalid(field, 'Must be an absolute URL, such as https://shop.example.com/billing.')
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url)))
    throw invalid(field, 'Must start with https://.')
  if (url.protocol === 'http:' && !development)
    throw invalid(field, 'Must start with https://; http: on loopback is for development.')
  if (url.username !== '' || url.password !== '') throw invalid(field, 'Must not hold a user name or password.')
  if (url.href.length > URL_CHARS_MAX)
    throw invalid(field, `Must be at most ${URL_CHARS_MAX} characters long once it is percent-encoded.`)
  return url
}

/** A hint about a webhook's URL while it is typed. The server decides; `bad` means it will refuse it. */
export interface UrlHint {
  text: string
  bad: boolean
}

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d{1,3}){3}|\[::1\])$/i
const PRIVATE =
  /^(10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|169\.254\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|\[f[cde])/i

/** The hint for a typed URL, by the rules of the egress guard. */
export function hintOfUrl(text: string, environment: 'development' | 'production'): UrlHint {
  const isDevelopment = environment === 'development'
  const typed = text.trim()
  if (typed === '')
    return {
      bad: false,
      text: isDevelopment
        ? 'An https URL that is reachable from the public internet. In development, http://localhost also works.'
        : 'An https URL that is reachable from the public internet.',
    }
  if (!URL.canParse(typed) || !/^https?:\/\//i.test(typed))
    return { bad: true, text: 'Enter a complete URL, for example https://example.com/webhooks.' }
  const url = new URL(typed)
  if (url.username !== '' || url.password !== '')
    return { bad: true, text: 'The URL must not contain a user name or a password. Verify the signature instead.' }
  if (LOOPBACK.test(url.hostname))
    return isDevelopment
      ? { bad: false, text: 'This URL is on this machine. It works in development and is refused in production.' }
      : { bad: true, text: 'This URL is on the machine of the server. It is refused unless the operator allowed it.' }
  if (PRIVATE.test(url.hostname))
    return {
      bad: true,
      text: 'This URL is in a private network. It is refused unless the operator of the server allowed it.',
    }
  if (url.protocol === 'http:')
    return {
      bad: true,
      text: 'This URL does not use TLS. Use https. Other URLs are refused unless the operator of the server allowed the host.',
    }
  return { bad: false, text: `Events are sent to ${url.host}. The address is checked now and before every delivery.` }
}

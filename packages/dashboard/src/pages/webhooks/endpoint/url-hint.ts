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
        ? 'An https address that the public internet reaches. In development, http://localhost too.'
        : 'An https address that the public internet reaches.',
    }
  if (!URL.canParse(typed) || !/^https?:\/\//i.test(typed))
    return { bad: true, text: 'Write the whole address, such as https://example.com/webhooks.' }
  const url = new URL(typed)
  if (url.username !== '' || url.password !== '')
    return { bad: true, text: 'An address with a user name or a password in it is refused. Rely on the signature.' }
  if (LOOPBACK.test(url.hostname))
    return isDevelopment
      ? { bad: false, text: 'On this machine: fine in development, refused in production.' }
      : { bad: true, text: 'On the server’s own machine: refused, unless its operator allowed it.' }
  if (PRIVATE.test(url.hostname))
    return { bad: true, text: 'In a private network: refused, unless the operator of this server allowed it.' }
  if (url.protocol === 'http:')
    return { bad: true, text: 'Without TLS: refused, unless the operator of this server allowed this host. Use https.' }
  return { bad: false, text: `Events are posted to ${url.host}. The address is checked now and at every send.` }
}

/** A webhook's URL, short enough for a heading: without its scheme, and without the end of a long one. */
export function shortUrl(url: string, charsMax = 60): string {
  const short = url.replace(/^https?:\/\//, '').replace(/\/$/, '')
  return short.length <= charsMax ? short : `${short.slice(0, charsMax - 1)}…`
}

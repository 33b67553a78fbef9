/** What `HALFKEY_FLOOR` names: an object of an S3-compatible bucket, a URL or a file. */
export type FloorAddress =
  | { kind: 'off' }
  | { kind: 's3'; url: string; region: string }
  | { kind: 'url'; url: string }
  | { kind: 'file'; path: string }

/** @throws Error whose message completes "HALFKEY_FLOOR must be …" */
export function readFloorAddress(text: string): FloorAddress {
  if (text === 'off') return { kind: 'off' }
  const s3 = text.startsWith('s3:')
  const url = /^(s3:)?https?:/.test(text) ? URL.parse(s3 ? text.slice('s3:'.length) : text) : null
  if (url !== null && url.username === '' && url.hash === '') {
    if (!s3) return { kind: 'url', url: url.href }
    const region = url.searchParams.get('region')
    url.search = ''
    if (region !== null && /^\/[^/]+\/.+/.test(url.pathname)) return { kind: 's3', url: url.href, region }
  }
  const path = text.startsWith('file:') ? text.slice('file:'.length) : text
  if (path.startsWith('/')) return { kind: 'file', path }
  throw new Error(
    'off, the absolute path of a file, an https URL, or s3:https://<host>/<bucket>/<key>?region=<region>, all without a user name',
  )
}

/** A setting's text, unless it is no address. @throws Error whose message completes "HALFKEY_FLOOR must be …" */
export function floorAddress(text: string): string {
  readFloorAddress(text)
  return text
}

import { createHash, randomBytes } from 'node:crypto'
import { open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { Config } from '../config.ts'
import type { Egress, SendRequest } from '../egress/egress.ts'
import { readFloorAddress } from './address.ts'

/** Above the floor of 100 000 tenants. */
const FLOOR_BYTES_MAX = 32 * 1024 * 1024
const TIMEOUT_MS = 5_000
/** A draft that is older was left by a process that was killed. */
const DRAFT_MS = 60_000

/** The place outside the database where the floor is. */
export interface FloorStorage {
  /** For people. Holds no secret. */
  place: string
  /** Whether a network lies between, so that nothing may wait for it. */
  isRemote: boolean
  /** What was written last; null if nothing is there. @throws Error if that cannot be found out */
  read(): Promise<Buffer | null>
  /** Replaces it: what is read afterwards is the old or the new text, never a mixture. */
  write(bytes: Buffer): Promise<void>
}

const isMissing = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

/** A file. Several processes of one machine may write it. */
function createFile(path: string): FloorStorage {
  const [folder, name] = [dirname(path), basename(path)]
  let swept = false

  async function sweep(): Promise<void> {
    if (swept) return
    swept = true
    for (const each of await readdir(folder)) {
      if (!each.startsWith(`${name}.`) || !each.endsWith('.new')) continue
      const found = await stat(join(folder, each)).catch(() => null)
      if (found !== null && Date.now() - found.mtimeMs > DRAFT_MS) await rm(join(folder, each), { force: true })
    }
  }

  return {
    place: path,
    isRemote: false,
    read: () =>
      readFile(path).catch((error: unknown) => {
        if (isMissing(error)) return null
        throw error
      }),
    async write(bytes) {
      await sweep()
      const draft = `${path}.${randomBytes(6).toString('hex')}.new`
      try {
        await writeFile(draft, bytes, { mode: 0o600, flag: 'wx', flush: true })
        await rename(draft, path)
      } catch (error) {
        await rm(draft, { force: true })
        throw error
      }
      // The new name, too, must outlast a power cut.
      await using handle = await open(folder, 'r')
      await handle.sync()
    },
  }
}

/** Adds what authenticates a request. */
type Sign = (method: 'GET' | 'PUT', url: string, headers: Record<string, string>, body: string) => Promise<Headers>

const credentialsIn = async (path: string) => (await readFile(path, 'utf8')).trim()

/** `bearer` of a URL, if a file has one. */
const bearing =
  (file: string | null): Sign =>
  async (_, __, headers) => {
    const token = file === null ? null : await credentialsIn(file)
    return new Headers(token === null ? headers : { ...headers, authorization: `Bearer ${token}` })
  }

/** AWS Signature Version 4, with the access key id and the secret access key that a file has, a colon between them. */
const signing =
  (file: string, region: string): Sign =>
  async (method, url, headers, body) => {
    const { AwsV4Signer } = await import('aws4fetch')
    const [accessKeyId = '', ...secret] = (await credentialsIn(file)).split(':')
    const digest = createHash('sha256').update(body).digest('hex')
    const signer = new AwsV4Signer({
      method,
      url,
      headers: { ...headers, 'x-amz-content-sha256': digest },
      accessKeyId,
      secretAccessKey: secret.join(':'),
      region,
      service: 's3',
      ...(method === 'PUT' ? { body } : {}),
    })
    return (await signer.sign()).headers
  }

/** An address that GET and PUT lead to. */
function createRemote(place: string, url: string, sign: Sign, egress: Egress): FloorStorage {
  const requestOf = async (method: 'GET' | 'PUT', body: string): Promise<SendRequest> => ({
    url,
    headers: Object.fromEntries(await sign(method, url, { 'content-type': 'application/octet-stream' }, body)),
    body,
    timeoutMs: TIMEOUT_MS,
    keepsAnswer: true,
    answerBytesMax: FLOOR_BYTES_MAX,
  })
  const failed = (verb: string, error: string | null) => new Error(`${place} cannot be ${verb}: ${error ?? 'failed'}`)
  return {
    place,
    isRemote: true,
    async read() {
      const { body: _, ...request } = await requestOf('GET', '')
      const { ok, statusCode, error, answer } = await egress.get(request)
      if (statusCode === 404) return null
      if (!ok || answer === undefined) throw failed('read', error)
      return answer
    },
    async write(bytes) {
      const { ok, error } = await egress.put(await requestOf('PUT', bytes.toString('utf8')))
      if (!ok) throw failed('written', error)
    },
  }
}

/** Opens what is configured: by default a file beside the key file. Null if there is to be no floor. */
export function openFloorStorage(
  config: Pick<Config, 'floor' | 'floorCredentialsFile' | 'kekFile'>,
  egress: Egress,
): FloorStorage | null {
  const address = readFloorAddress(config.floor ?? `file:${resolve(`${config.kekFile}.floor`)}`)
  const credentials = config.floorCredentialsFile
  switch (address.kind) {
    case 'off':
      return null
    case 'file':
      return createFile(address.path)
    case 'url':
      return createRemote(address.url, address.url, bearing(credentials), egress)
    case 's3':
      return createRemote(`s3:${address.url}`, address.url, signing(credentials as string, address.region), egress)
  }
}

import { AwsV4Signer } from 'aws4fetch'
import type { Deps } from '../../../platform/deps.ts'
import type { SendRequest, SendResult } from '../../../platform/egress/egress.ts'
import { redact } from '../options/redact.ts'

/** Credentials as the webhook has them. Halfkey never looks for others: not in the environment, files or metadata services. */
export interface AwsAccess {
  region: string
  accessKeyId: string
  secretAccessKey: string
}

interface AwsRequest extends SendRequest {
  body: string
  service: 'sqs' | 's3'
  /** Unix milliseconds. The signature is valid for some minutes around it. */
  nowMs: number
}

/** The code of an error: `<Code>` in XML, `__type` in JSON, there after the name of a namespace. */
const CODE = /<Code>([\w.]{1,100})<\/Code>|"__type"\s*:\s*"(?:[\w.]+#)?([\w.]{1,100})"/

const UNKNOWN_KEY = 'the access key id is not known'
const NO_QUEUE = 'the queue does not exist'
const WRONG_REGION = 'the region is not the one of the bucket'
const THROTTLED = 'too many requests'

const WORDS: Readonly<Record<string, string>> = {
  AccessDenied: 'these credentials are not allowed to write here',
  AccessDeniedException: 'these credentials are not allowed to write here',
  AuthorizationHeaderMalformed: WRONG_REGION,
  IllegalLocationConstraintException: WRONG_REGION,
  InvalidAccessKeyId: UNKNOWN_KEY,
  InvalidClientTokenId: UNKNOWN_KEY,
  NoSuchBucket: 'the bucket does not exist',
  NonExistentQueue: NO_QUEUE,
  PermanentRedirect: WRONG_REGION,
  QueueDoesNotExist: NO_QUEUE,
  RequestThrottled: THROTTLED,
  RequestTimeTooSkewed: 'the clock of Halfkey’s database is wrong',
  SignatureDoesNotMatch: 'the secret access key is wrong',
  SlowDown: THROTTLED,
  ThrottlingException: THROTTLED,
  UnrecognizedClientException: UNKNOWN_KEY,
}

/** The error of an attempt: the status, what it means, and the code to search for. */
function errorOf(statusCode: number, snippet: string): string | null {
  const match = CODE.exec(snippet)
  const code = (match?.[1] ?? match?.[2])?.split('.').at(-1)
  if (code === undefined) return null
  const words = WORDS[code]
  return `status ${statusCode}: ${words === undefined ? code : `${words} (${code})`}`
}

/** `20261121T083000Z`: ISO 8601, basic format. */
const basicTime = (ms: number) => new Date(ms).toISOString().replace(/[:-]|\.\d{3}/g, '')

/** Sends one request through the guard, with Signature Version 4. A failure says what the service said, without the secret. */
export async function callAws(
  { egress }: Pick<Deps, 'egress'>,
  { region, accessKeyId, secretAccessKey }: AwsAccess,
  { service, nowMs, ...request }: AwsRequest,
): Promise<SendResult> {
  const method = service === 's3' ? 'PUT' : 'POST'
  const { url, headers, body } = request
  const access = { region, accessKeyId, secretAccessKey }
  const signer = new AwsV4Signer({ ...access, service, method, url, headers, body, datetime: basicTime(nowMs) })
  const signed = { ...request, headers: Object.fromEntries((await signer.sign()).headers) }
  const result = method === 'PUT' ? await egress.put(signed) : await egress.post(signed)
  if (result.responseSnippet === null) return result
  const responseSnippet = redact(result.responseSnippet, [secretAccessKey])
  if (result.ok || result.statusCode === null) return { ...result, responseSnippet }
  return { ...result, responseSnippet, error: errorOf(result.statusCode, responseSnippet) ?? result.error }
}

import { type KeyService, KeyServiceAddressError, KeyServiceError, type KeyServiceFailure } from './key-service.ts'

const FAILURES: Readonly<Record<string, KeyServiceFailure>> = {
  AccessDeniedException: 'denied',
  CredentialsProviderError: 'denied',
  ExpiredTokenException: 'denied',
  InvalidSignatureException: 'denied',
  UnrecognizedClientException: 'denied',
  DisabledException: 'gone',
  InvalidKeyUsageException: 'gone',
  KMSInvalidStateException: 'gone',
  NotFoundException: 'gone',
  IncorrectKeyException: 'corrupt',
  InvalidCiphertextException: 'corrupt',
}

/** Gateways in between answer in a form that has no name. */
const failureOf = ({ name, $metadata }: Error & { $metadata?: { httpStatusCode?: number } }): KeyServiceFailure =>
  FAILURES[name] ?? ([401, 403].includes($metadata?.httpStatusCode ?? 0) ? 'denied' : 'unavailable')

/** Region and key, from `<region>/<key>` or from an ARN. */
function readAddress(address: string): { region: string; keyId: string } {
  const arn = /^arn:[\w-]+:kms:([\w-]+):\d+:(?:key|alias)\/.+$/.exec(address)
  if (arn?.[1] !== undefined) return { region: arn[1], keyId: address }
  const [, region, keyId] = /^([a-z]{2}[\w-]+-\d)\/(.+)$/.exec(address) ?? []
  if (region === undefined || keyId === undefined)
    throw new KeyServiceAddressError(
      `awskms:${address} must be awskms:<region>/<key id or alias/name>, or awskms:<the key's ARN>`,
    )
  return { region, keyId }
}

/**
 * AWS KMS, with a symmetric key for encryption. Credentials and endpoint are found as AWS' tools do: environment, shared
 * files, the role of a container, a pod or a machine. The context becomes the encryption context, which CloudTrail shows.
 */
export async function openAwsKms(address: string): Promise<KeyService> {
  const { region, keyId } = readAddress(address)
  const { DecryptCommand, EncryptCommand, KMSClient } = await import('@aws-sdk/client-kms').catch(() => {
    throw new KeyServiceAddressError('awskms needs a package that is not installed: npm install @aws-sdk/client-kms')
  })
  const client = new KMSClient({ region, maxAttempts: 1 })
  const of = (context: string) => ({ KeyId: keyId, EncryptionContext: { halfkey: context } })

  async function call(name: string, work: () => Promise<Uint8Array | undefined>): Promise<Buffer> {
    try {
      const bytes = await work()
      if (bytes === undefined) throw new Error('the answer is empty')
      return Buffer.from(bytes)
    } catch (error) {
      const failure = failureOf(error as Error)
      throw new KeyServiceError(failure, `AWS KMS, ${name} with ${keyId}: ${(error as Error).message}`, {
        cause: error,
      })
    }
  }

  return {
    wrap: (key, context) =>
      call(
        'Encrypt',
        async () => (await client.send(new EncryptCommand({ ...of(context), Plaintext: key }))).CiphertextBlob,
      ),
    unwrap: (wrapped, context) =>
      call(
        'Decrypt',
        async () => (await client.send(new DecryptCommand({ ...of(context), CiphertextBlob: wrapped }))).Plaintext,
      ),
    close: async () => client.destroy(),
  }
}

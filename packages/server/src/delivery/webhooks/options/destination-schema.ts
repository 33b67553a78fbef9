import { z } from 'zod'

const PREFIX_CHARS_MAX = 500

const matching = (pattern: RegExp, expected: string) => z.string().regex(pattern).meta({ 'x-expected': expected })

const QueueUrl = z.string().min(1).max(1_024).meta({
  description: 'The URL of the queue. Requests go to its host. A name that ends in `.fifo` is a FIFO queue.',
  example: 'https://sqs.eu-central-1.amazonaws.com/123456789012/events',
})
const Region = matching(/^[a-z0-9-]{1,40}$/, 'a region such as "eu-central-1"').meta({ example: 'eu-central-1' })
const Bucket = matching(
  /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
  'the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens',
).meta({ example: 'acme-events' })
// No segment may be `.` or `..`, which a URL would resolve.
const Prefix = matching(
  /^[A-Za-z0-9_-][A-Za-z0-9_.-]*(\/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*\/?$/,
  'a path such as "halfkey/events", of letters, digits, ".", "_", "-" and "/"',
)
  .max(PREFIX_CHARS_MAX)
  .meta({ description: 'The names of all objects begin with it.', example: 'halfkey/events' })
const Endpoint = z.string().min(1).max(1_024).meta({
  description: 'The URL of an S3-compatible service. Null: Amazon S3 in this region.',
  example: 'https://minio.example.com',
})
const ForcePathStyle = z.boolean().meta({
  description:
    'Whether the bucket is part of the path, not of the host. By default true with an `endpoint`, and otherwise false.',
})
const AccessKeyId = matching(/^[A-Za-z0-9._~+=@:-]{1,128}$/, 'an access key id').meta({
  example: 'AKIAIOSFODNN7EXAMPLE',
})
const Credentials = {
  accessKeyId: AccessKeyId,
  secretAccessKey: matching(/^[\x21-\x7e]{1,256}$/, 'a secret access key: visible ASCII characters').meta({
    description: 'Stored encrypted, never shown.',
  }),
}

/** A destination as calls take it. */
export const DestinationInput = z
  .discriminatedUnion('type', [
    z
      .strictObject({ type: z.literal('sqs'), queueUrl: QueueUrl, region: Region, ...Credentials })
      .meta({ id: 'SqsDestinationInput' }),
    z
      .strictObject({
        type: z.literal('s3'),
        bucket: Bucket,
        prefix: Prefix.nullable().optional(),
        region: Region,
        endpoint: Endpoint.nullable().optional(),
        forcePathStyle: ForcePathStyle.optional(),
        ...Credentials,
      })
      .meta({ id: 'S3DestinationInput' }),
  ])
  .meta({
    description:
      'An Amazon SQS queue or an S3-compatible bucket, instead of a URL. Needs the scope `destinations:write` too. Always given as a whole.',
  })
export type DestinationInput = z.infer<typeof DestinationInput>

/** A destination as responses show it. */
export const ShownDestination = z.discriminatedUnion('type', [
  z
    .object({ type: z.literal('sqs'), queueUrl: z.string(), region: z.string(), accessKeyId: z.string() })
    .meta({ id: 'SqsDestination' }),
  z
    .object({
      type: z.literal('s3'),
      bucket: z.string(),
      prefix: z.string().nullable(),
      region: z.string(),
      endpoint: z.string().nullable(),
      forcePathStyle: z.boolean(),
      accessKeyId: z.string(),
    })
    .meta({ id: 'S3Destination' }),
])
export type ShownDestination = z.infer<typeof ShownDestination>

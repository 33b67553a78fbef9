import type { Body } from '@halfkey/sdk'
import type { FormField } from '../../../components/form/form-field.ts'

/** Where the events of a new webhook go, as it is typed. */
export interface Target {
  kind: 'url' | 'sqs' | 's3'
  destination: {
    queueUrl: string
    bucket: string
    prefix: string
    endpoint: string
    region: string
    accessKeyId: string
    secretAccessKey: string
  }
}

/** What a form begins with. */
export const NO_TARGET: Target = {
  kind: 'url',
  destination: {
    queueUrl: '',
    bucket: '',
    prefix: '',
    endpoint: '',
    region: '',
    accessKeyId: '',
    secretAccessKey: '',
  },
}

const KINDS: readonly { value: Target['kind']; label: string }[] = [
  { value: 'url', label: 'HTTP endpoint' },
  { value: 'sqs', label: 'Amazon SQS queue' },
  { value: 's3', label: 'S3-compatible bucket' },
]

const plain = { spellCheck: false }
const is =
  (...kinds: Target['kind'][]) =>
  ({ kind }: Target) =>
    kinds.includes(kind)

/** The choice between a URL and a destination, with the fields of each destination. */
export const TARGET_FIELDS: FormField<Target>[] = [
  { name: 'kind', label: 'Send to', kind: 'select', options: KINDS },
  {
    name: 'destination.queueUrl',
    label: 'Queue URL',
    required: 'Enter the URL of the queue.',
    input: { ...plain, inputMode: 'url', placeholder: 'https://sqs.eu-central-1.amazonaws.com/123456789012/events' },
    shown: is('sqs'),
  },
  {
    name: 'destination.bucket',
    label: 'Bucket',
    required: 'Enter the name of the bucket.',
    input: plain,
    shown: is('s3'),
  },
  {
    name: 'destination.prefix',
    label: 'Prefix',
    help: 'Optional. The names of all objects begin with it.',
    input: { ...plain, placeholder: 'halfkey/events' },
    shown: is('s3'),
  },
  {
    name: 'destination.endpoint',
    label: 'Endpoint',
    help: 'Optional. Optional. Only for services other than Amazon S3: their URL, for example https://minio.example.com.',
    input: { ...plain, inputMode: 'url' },
    shown: is('s3'),
  },
  {
    name: 'destination.region',
    label: 'Region',
    required: 'Enter the region.',
    input: { ...plain, placeholder: 'eu-central-1' },
    shown: is('sqs', 's3'),
  },
  {
    name: 'destination.accessKeyId',
    label: 'Access key id',
    required: 'Enter the access key id.',
    input: plain,
    shown: is('sqs', 's3'),
  },
  {
    name: 'destination.secretAccessKey',
    label: 'Secret access key',
    required: 'Enter the secret access key.',
    help: 'It is stored encrypted, and never shown again.',
    input: { type: 'password' },
    shown: is('sqs', 's3'),
  },
]

/** What was typed, as the API takes it; nothing for a URL. */
export function destinationOf({ kind, destination }: Target): Pick<Body<'/webhooks', 'post'>, 'destination'> {
  if (kind === 'url') return {}
  const { queueUrl, bucket, prefix, endpoint, region, accessKeyId, secretAccessKey } = Object.fromEntries(
    Object.entries(destination).map(([name, value]) => [name, value.trim()]),
  ) as Target['destination']
  const access = { region, accessKeyId, secretAccessKey }
  if (kind === 'sqs') return { destination: { type: 'sqs', queueUrl, ...access } }
  return { destination: { type: 's3', bucket, prefix: prefix || null, endpoint: endpoint || null, ...access } }
}

import { z } from 'zod'
import { Time } from '../../../platform/http/route.ts'
import { DestinationInput, ShownDestination } from './destination-schema.ts'

export const HEADERS_MAX = 20
const NAME_CHARS_MAX = 100
const VALUE_CHARS_MAX = 4_096

const Last4 = z.string().nullable().meta({
  description: 'The last four characters. Null for a value of fewer than 16 characters.',
})

const ShownHeader = z
  .object({ name: z.string().meta({ example: 'X-Api-Key' }), valueLast4: Last4 })
  .meta({ id: 'WebhookHeader' })

/** What responses show of a webhook's options. */
export const ShownOptions = z.object({
  headers: z.array(ShownHeader).meta({
    description:
      'Your own headers, which every delivery carries. Responses show their names, and the last four characters of values that have 16 or more.',
  }),
  oauth: z
    .object({
      tokenUrl: z.string(),
      clientId: z.string(),
      clientSecretLast4: Last4,
      scope: z.string().nullable(),
      audience: z.string().nullable(),
    })
    .meta({ id: 'WebhookOAuth' })
    .nullable()
    .meta({ description: 'Where deliveries get their access token. Null: they have none.' }),
  clientCertificate: z
    .object({
      subject: z.string().meta({ example: 'CN=halfkey.example.com' }),
      fingerprint: z.string().meta({ description: 'SHA-256 of the certificate.' }),
      expiresAt: Time,
    })
    .meta({ id: 'WebhookClientCertificate' })
    .nullable()
    .meta({ description: 'The certificate for mutual TLS. Null: there is none.' }),
  destination: ShownDestination.nullable().meta({
    description: 'The queue or bucket that events go to, without its secret. Null: they are posted to `url`.',
  }),
})
export type ShownOptions = z.infer<typeof ShownOptions>

export const NO_OPTIONS: ShownOptions = { headers: [], oauth: null, clientCertificate: null, destination: null }

const HeaderValue = z.string().min(1).max(VALUE_CHARS_MAX)
const HEADERS_TEXT =
  'Your own headers by name: at most 20 and 16 KiB together, 4 KiB each. Values are visible ASCII characters and spaces, and are stored encrypted. Not allowed: `X-Service-*`, `webhook-*`, `Host`, `Content-*`, `ce-*`, `Accept-Encoding`, `traceparent`, `tracestate`, headers of the connection, and `Authorization` with `oauth`.'

const text = (most: number) => z.string().min(1).max(most)

const OAuthInput = z
  .strictObject({
    tokenUrl: text(2_048).meta({ example: 'https://login.example.com/oauth/token' }),
    clientId: text(500),
    clientSecret: text(2_000).meta({
      description: 'Stored encrypted. Responses show at most its last four characters.',
    }),
    scope: text(1_000).nullable().optional(),
    audience: text(1_000).nullable().optional(),
  })
  .meta({
    id: 'WebhookOAuthInput',
    description:
      'OAuth 2.0 client credentials: Halfkey gets an access token from `tokenUrl` and sends it as `Authorization: Bearer …`. `tokenUrl` is checked like the URL of the webhook.',
  })

const ClientCertificateInput = z
  .strictObject({
    certificate: text(16 * 1024).meta({ description: 'PEM, with its chain below it, if it has one.' }),
    privateKey: text(8 * 1024).meta({ description: 'PEM, without a password. Stored encrypted, never shown.' }),
  })
  .meta({
    id: 'WebhookClientCertificateInput',
    description: 'A client certificate for endpoints that use mutual TLS. The URL must use https.',
  })

const OAuthOrNull = OAuthInput.nullable().optional()
const CertificateOrNull = ClientCertificateInput.nullable().optional()
const Destination = DestinationInput.optional()

/** Options as creating a webhook takes them. */
export const NewOptions = {
  headers: z
    .record(z.string().max(NAME_CHARS_MAX), HeaderValue)
    .optional()
    .meta({ description: HEADERS_TEXT, example: { 'X-Api-Key': 'k3y-0f-y0ur-g4teway' } }),
  oauth: OAuthOrNull,
  clientCertificate: CertificateOrNull,
  destination: Destination,
}

/** Options as changing a webhook takes them. */
export const ChangedOptions = {
  headers: z
    .record(z.string().max(NAME_CHARS_MAX), HeaderValue.nullable())
    .nullable()
    .optional()
    .meta({
      description: `${HEADERS_TEXT} Merged by name. Null removes a header, and null instead of the object removes all.`,
    }),
  oauth: OAuthOrNull,
  clientCertificate: CertificateOrNull,
  destination: Destination,
}

const Options = z.strictObject(ChangedOptions)
/** Options of either call. */
export type OptionsInput = z.infer<typeof Options>

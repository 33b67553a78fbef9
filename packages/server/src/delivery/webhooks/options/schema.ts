import { z } from 'zod'

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
    description: 'Your own headers, which every delivery carries. Their values are never shown.',
  }),
})
export type ShownOptions = z.infer<typeof ShownOptions>

export const NO_OPTIONS: ShownOptions = { headers: [] }

const HeaderValue = z.string().min(1).max(VALUE_CHARS_MAX)
const HEADERS_TEXT =
  'Your own headers by name: at most 20 and 16 KiB together, 4 KiB each. Values are visible ASCII characters and spaces, and are stored encrypted. Not allowed: `X-Service-*`, `webhook-*`, `Host`, `Content-*`, `ce-*`, `traceparent`, `tracestate` and headers of the connection.'

/** Options as creating a webhook takes them. */
export const NewOptions = {
  headers: z
    .record(z.string().max(NAME_CHARS_MAX), HeaderValue)
    .optional()
    .meta({ description: HEADERS_TEXT, example: { 'X-Api-Key': 'k3y-0f-y0ur-g4teway' } }),
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
}

const Options = z.strictObject(ChangedOptions)
/** Options of either call. */
export type OptionsInput = z.infer<typeof Options>

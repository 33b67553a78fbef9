import { z } from 'zod'

const VALUE_CHARS_MAX = 2_048
const INIT_DATA_CHARS_MAX = 16_384
const FIELDS_MAX = 50

const expected = (text: string) => ({ 'x-expected': text })

/** Without control characters: a line feed in a value would look like the end of a field. */
const Text = z
  .string()
  .max(VALUE_CHARS_MAX)
  .regex(/^\P{Cc}*$/u)
  .meta(expected(`text of at most ${VALUE_CHARS_MAX} characters, none a control character`))

const ID_WORDS = expected('a number from 1 to 9007199254740991, or digits as text')
const DATE_WORDS = expected('Unix seconds')

/** The fields that the login widget hands to a page, unchanged, or a Mini App's `initData`. */
export const VerifyMessenger = z
  .object({
    id: z
      .union([
        z.int().min(1).meta(ID_WORDS),
        z
          .string()
          .regex(/^[1-9]\d{0,19}$/)
          .meta(ID_WORDS),
      ])
      .optional()
      .meta({ description: "The Telegram account's id." }),
    first_name: Text.optional(),
    last_name: Text.optional(),
    username: Text.optional(),
    photo_url: Text.optional(),
    auth_date: z
      .union([
        z.int().min(0).meta(DATE_WORDS),
        z
          .string()
          .regex(/^\d{1,12}$/)
          .meta(DATE_WORDS),
      ])
      .optional()
      .meta({ description: 'When Telegram signed the data, in Unix seconds. At most 24 hours ago.' }),
    hash: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .meta({ description: "Telegram's signature over all other fields.", ...expected('64 hexadecimal digits') }),
    initData: z.string().min(1).max(INIT_DATA_CHARS_MAX).optional().meta({
      description: "A Mini App's `Telegram.WebApp.initData`, unchanged. Send it instead of the widget's fields.",
    }),
    appId: z
      .string()
      .optional()
      .meta({ description: "Default: the key's app, or the tenant's default app. Not signed." }),
  })
  // Telegram adds fields and signs them, so the signature covers unknown fields too.
  .catchall(z.union([Text, z.int().meta(expected('text or a whole number'))]))
  .meta({
    id: 'VerifyMessenger',
    maxProperties: FIELDS_MAX,
    description:
      'Either `initData`, or the fields of the login widget, of which `id`, `auth_date` and `hash` are required. Pass on other fields of Telegram unchanged.',
  })
export type VerifyMessenger = z.infer<typeof VerifyMessenger>

export const WidgetConfig = z.strictObject({
  app_id: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
})
export type WidgetConfig = z.infer<typeof WidgetConfig>

/** The data that a page needs to offer the sign-in. */
export const MessengerWidget = z
  .object({
    provider: z.enum(['telegram']),
    botUsername: z.string().nullable().meta({ description: "The bot's name, without @.", example: 'shop_login_bot' }),
    botId: z.string().meta({ example: '110201543' }),
    requestAccess: z
      .enum(['write'])
      .meta({ description: 'The permission that the bot asks for: `write` to the user.' }),
    authUrl: z.string().meta({
      description:
        'The URL to send the browser to instead of showing the widget. Append `&return_to=` and an encoded URL of this origin. The browser returns with the fields in the fragment, as base64url JSON in `tgAuthResult`.',
      example:
        'https://oauth.telegram.org/auth?bot_id=110201543&origin=https%3A%2F%2Fshop.example.com&embed=0&request_access=write',
    }),
  })
  .meta({ id: 'MessengerWidget' })
export type MessengerWidget = z.infer<typeof MessengerWidget>

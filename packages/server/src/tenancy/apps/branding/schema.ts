import { z } from 'zod'

const URL_CHARS_MAX = 2048

const expected = (text: string) => ({ 'x-expected': text })

/** The ways in that the hosted sign-in page shows. */
const SIGN_IN_WAYS = ['passkey', 'email', 'wallet', 'provider', 'messenger', 'guest'] as const

const link = (what: string, example: string) =>
  z
    .string()
    .max(URL_CHARS_MAX)
    .regex(/^https:\/\//)
    .nullable()
    .meta({
      description: `${what} The hosted pages link to it. null: no link.`,
      example,
      ...expected(`an https: URL of at most ${URL_CHARS_MAX} characters`),
    })

const LINKS = {
  termsUrl: link("The app's terms of service.", 'https://shop.example.com/terms'),
  privacyUrl: link("The app's privacy policy.", 'https://shop.example.com/privacy'),
  supportUrl: link("Where the app's users get help.", 'https://shop.example.com/help'),
}

const LOOK = {
  name: z
    .string()
    .max(100)
    // Not only spaces; no control characters, and none that turn the text around them.
    .regex(/^(?=.*\S)[^\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]*$/u)
    .nullable()
    .meta({
      description: "The name that the hosted pages and the portal show. null: the app's name.",
      example: 'Shop',
      ...expected(
        'text of 1 to 100 characters, not only spaces, without control characters and characters that change the direction of text',
      ),
    }),
  accentColor: z
    .string()
    .regex(/^#[0-9a-f]{6}$/)
    .nullable()
    .meta({
      description:
        'The colour of buttons on the hosted pages and in the portal. White text must be readable on it: a contrast of at least 4.5. null: the default.',
      example: '#1d4ed8',
      ...expected('a colour such as #1d4ed8'),
    }),
  cornerRadius: z.enum(['square', 'rounded', 'round']).meta({
    description: 'The corners of buttons and fields on the hosted pages. Default: rounded.',
  }),
  colorScheme: z.enum(['auto', 'light', 'dark']).meta({
    description: "The colour scheme of the hosted pages. `auto` (the default): that of the user's browser.",
  }),
  methodOrder: z
    .array(z.enum(SIGN_IN_WAYS))
    .max(SIGN_IN_WAYS.length)
    .meta({
      description:
        'The order of the ways in on the hosted sign-in page. The first one is the main button. Ways that are not in the list follow in the usual order: the list turns nothing on or off.',
      example: ['email', 'passkey'],
      uniqueItems: true,
      ...expected(`a list of different ways in: ${SIGN_IN_WAYS.join(', ')}`),
    }),
}

const LogoFacts = z.object({
  width: z.int().meta({ description: 'Pixels.', example: 320 }),
  height: z.int().meta({ description: 'Pixels.', example: 64 }),
  sha256: z.string().meta({
    description: 'Of the image, hexadecimal. `GET /apps/:id/logo` returns the image.',
    example: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  }),
})

/** How the pages of an app look, in responses. */
export const Branding = z.object({ ...LOOK, ...LINKS, logo: LogoFacts.nullable() })
export type Branding = z.infer<typeof Branding>

/** Where the pages of an app lead. */
export type BrandLinks = Pick<Branding, keyof typeof LINKS>

/** The same in the bodies of POST and PATCH. */
export const BrandingChange = z.strictObject({ ...LOOK, ...LINKS }).partial()
export type BrandingChange = z.infer<typeof BrandingChange>

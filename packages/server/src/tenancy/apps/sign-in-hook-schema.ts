import { z } from 'zod'

const URL_CHARS_MAX = 2048

const settings = {
  url: z.string().max(URL_CHARS_MAX).nullable().meta({
    description:
      'Your server that decides whether a sign-in may begin a session: it gets a signed `session.before_create`. An `https:` URL. null: none is asked.',
    example: 'https://api.example.com/halfkey-sign-ins',
  }),
  onFailure: z.enum(['refuse', 'allow']).meta({
    description:
      'What happens if your server does not decide within two seconds: the sign-in is refused (the default), or allowed.',
  }),
}

/** Who decides about sign-ins, in responses. */
export const SignInHook = z.object({
  ...settings,
  secretSet: z.boolean().meta({ description: 'Whether a secret for `url` is stored.' }),
})

/** The same in the bodies of POST and PATCH. */
export const SignInHookChange = z.strictObject({
  url: settings.url.optional(),
  secret: z
    .string()
    .regex(/^whsec_[A-Za-z0-9+/]{32,128}={0,2}$/)
    .nullable()
    .optional()
    .meta({
      description:
        'Signs the requests to `url`: `whsec_` and the base64 of 24 to 96 random bytes. It can be written but never read. null removes it.',
      example: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD0ZXGy3mlHz8=',
      writeOnly: true,
      'x-expected': 'whsec_ and the base64 of 24 to 96 random bytes',
    }),
  onFailure: settings.onFailure.optional(),
})

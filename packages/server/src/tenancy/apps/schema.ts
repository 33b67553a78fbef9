import { z } from 'zod'
import { Metadata, Paging, Times } from '../../platform/http/route.ts'
import { AMOUNT_PATTERN } from '../../platform/ports/amount.ts'
import { PARTY_PATTERN } from '../../platform/ports/party.ts'
import { Agents, AgentsChange } from './agents-schema.ts'
import { Branding, BrandingChange } from './branding/schema.ts'
import { EmailRecovery } from './email-recovery-schema.ts'
import { ExternalWallets } from './external-wallets-schema.ts'
import { OpenId, OpenIdChange } from './openid-schema.ts'
import { SignInHook, SignInHookChange } from './sign-in-hook-schema.ts'

const LIST_ENTRIES_MAX = 100
const URL_CHARS_MAX = 2048

const expected = (text: string) => ({ 'x-expected': text })

/** The languages of emails. */
export const EMAIL_LANGUAGES = ['en', 'de', 'fr', 'es', 'pt', 'ja', 'zh', 'ar'] as const

const TestCode = z.strictObject({
  email: z.string().min(3).max(320).meta({ example: 'review@example.com' }),
  code: z
    .string()
    .regex(/^\d{6}$/)
    .meta({ example: '424242', ...expected('six digits') }),
})

const Name = z
  .string()
  .max(200)
  .regex(/\S/)
  .meta({
    description: 'The display name of the app.',
    example: 'Shop',
    ...expected('text of 1 to 200 characters, not only spaces'),
  })

const AllowedOrigins = z
  .array(z.string().max(URL_CHARS_MAX))
  .max(LIST_ENTRIES_MAX)
  .meta({
    description:
      'Origins from which browsers may use the publishable keys: `https://host[:port]`, in development also `http:` on loopback. Empty: none, except loopback in development. The origin of the service itself is always allowed.',
    example: ['https://shop.example.com'],
    uniqueItems: true,
    ...expected('a list of at most 100 different origins'),
  })

const AllowedRedirectUrls = z
  .array(z.string().max(URL_CHARS_MAX))
  .max(LIST_ENTRIES_MAX)
  .meta({
    description:
      'URLs to which a sign-in may return the browser: `https:` URLs, private-use schemes of native apps in reverse-domain form (RFC 8252, section 7.1), in development also `http:` on loopback. They are compared character by character.',
    example: ['https://shop.example.com/signed-in', 'com.example.shop:/signed-in'],
    uniqueItems: true,
    ...expected('a list of at most 100 different URLs'),
  })

const RpId = z
  .string()
  .max(253)
  // Labels of RFC 1123. The last one is not a number, because an address is not a relying party id (WebAuthn L3, section 5.1.2).
  .regex(/^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*(?!\d+$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/)
  .meta({
    description:
      'Relying party id: the host name where passkeys are used, or a parent domain of it. Default: the host of HALFKEY_PUBLIC_URL.',
    example: 'example.com',
    ...expected('a host name in lower case (international ones in punycode), no address, no port'),
  })

const RpName = z
  .string()
  .min(1)
  .max(200)
  .meta({ description: "The name that authenticators show. Default: the app's name.", example: 'Shop' })
const UserVerification = z
  .enum(['required', 'preferred', 'discouraged'])
  .meta({ description: 'Whether a passkey asks for a PIN or a fingerprint.' })
const Provider = z.enum(['telegram']).meta({ description: 'The messaging platform.' })
const BotUsername = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_]{3,31}$/)
  .meta({
    description: "The bot's name, without @.",
    example: 'shop_login_bot',
    ...expected('a bot name of 4 to 32 letters, digits and underscores, without @'),
  })
const BotToken = z
  .string()
  .regex(/^[1-9]\d{0,19}:[A-Za-z0-9_-]{8,256}$/)
  .meta({
    description: "The bot's token, exactly as BotFather gave it. It can be written but never read. null removes it.",
    example: '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw',
    writeOnly: true,
    ...expected('a bot token such as 110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw'),
  })
const MfaPolicy = z.enum(['if_enrolled', 'always', 'never']).meta({
  description: 'Whether sensitive calls need a second factor: from users who have one, from all users, or from none.',
})
const EnforceForServer = z
  .boolean()
  .meta({ description: 'Applies the step-up rules also to calls with a secret key and `x-user-id`.' })
const AccessTokenSeconds = z
  .int()
  .min(60)
  .max(3600)
  .meta({ description: 'How long an access token is valid: 60 to 3600.', example: 900 })
const RefreshTokenDays = z
  .int()
  .min(1)
  .max(365)
  .meta({ description: 'How long a session lasts without a refresh: 1 to 365 days.', example: 30 })
const AllowServer = z.boolean().meta({
  description: 'Lets calls with a secret key and `x-user-id` use the keys of `shared` and `self_custody` wallets.',
})
const ServerCombine = z.boolean().meta({ description: 'Lets the service combine a key from its shares.' })

const EmailSettings = {
  enabled: z.boolean().meta({ description: 'Whether users can sign in with a code sent to their email address.' }),
  signUp: z.boolean().meta({ description: 'Whether a code sent to an address that no user has creates a user.' }),
  sender: z.enum(['smtp', 'webhook']).meta({
    description:
      "Who sends the emails: Halfkey through the operator's mail server, or your server, which gets a signed `email.requested` for each.",
  }),
  webhookUrl: z.string().max(URL_CHARS_MAX).nullable().meta({
    description: 'Where `email.requested` is sent if `sender` is `webhook`: an `https:` URL.',
    example: 'https://api.example.com/halfkey-emails',
  }),
  language: z.enum(EMAIL_LANGUAGES).meta({ description: 'The language of emails if the call names none.' }),
  testCodes: z
    .array(TestCode)
    .max(10)
    .meta({
      description:
        'Addresses with a fixed code, for store reviews and tests; nothing is sent to them. In production they count only with HALFKEY_TEST_CODES.',
      ...expected('a list of at most 10 addresses with their codes'),
    }),
}

const EmailWebhookSecret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]{32,128}={0,2}$/)
  .meta({
    description:
      'Signs the requests to `webhookUrl`: `whsec_` and the base64 of 24 to 96 random bytes. It can be written but never read. null removes it.',
    example: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD0ZXGy3mlHz8=',
    writeOnly: true,
    ...expected('whsec_ and the base64 of 24 to 96 random bytes'),
  })

const BUDGETS_MAX = 20

const BudgetParty = z
  .string()
  .regex(PARTY_PATTERN)
  .meta(expected('a party: a name, "::1220", and 64 hexadecimal digits in lower case'))

/** A limit on what all sessions of a wallet together may spend. */
export const BudgetInput = z
  .strictObject({
    asset: z.strictObject({
      issuer: BudgetParty,
      symbol: z
        .string()
        .min(1)
        .max(64)
        .meta({ ...expected('text of 1 to 64 characters'), example: 'USDX' }),
    }),
    amount: z
      .string()
      .regex(AMOUNT_PATTERN)
      .meta({
        ...expected('an amount such as "100.00": text, without sign or exponent, at most 28 digits and 10 decimals'),
        description: 'The most that can be spent within the window.',
        example: '100.00',
      }),
    window: z.enum(['lifetime', 'rolling_24h', 'rolling_30d', 'day_utc']).optional().meta({
      description:
        'Default: lifetime. `rolling_24h` counts up to 15 minutes longer than 24 hours, `rolling_30d` up to 6 hours longer than 30 days, never shorter.',
    }),
    recipient: BudgetParty.nullable().optional().meta({
      description: 'Counts only what this party receives or is offered. Default: everything.',
    }),
    templateId: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}:[A-Za-z][A-Za-z0-9_.-]{0,63}$/)
      .nullable()
      .optional()
      .meta({
        ...expected('a template such as Token:Holding'),
        description: 'Counts only what commands on contracts of this template cost. Not together with `recipient`.',
        example: null,
      }),
  })
  .meta({ id: 'BudgetInput' })
export type BudgetInput = z.infer<typeof BudgetInput>

/** Budgets, each for something else. */
export const BudgetInputs = z
  .array(BudgetInput)
  .max(BUDGETS_MAX)
  .meta(expected(`a list of at most ${BUDGETS_MAX} budgets`))

const COOLING_OFF_SECONDS_MAX = 7 * 86_400

const CoolingOffSeconds = z.int().min(0).max(COOLING_OFF_SECONDS_MAX).meta({
  description:
    "How long a new entry of a wallet's address book waits before it counts: see `POST /wallets/:id/recipients`. Default: 86400, one day. Holds for entries that are added after the change.",
  example: 86_400,
})

const AppBudgets = BudgetInputs.meta({
  description:
    "What each wallet of the app may spend, through all of its delegated sessions together. It applies beside the wallet's own budgets: see `PUT /wallets/:id/budgets`.",
  example: [],
})

/** An app in responses. */
export const App = z
  .object({
    id: z.string().meta({ example: 'app_01jb2m7x9kq4t8v6w0r3s5y1zb' }),
    name: Name,
    allowedOrigins: AllowedOrigins,
    allowedRedirectUrls: AllowedRedirectUrls,
    passkey: z.object({
      rpId: z.string().meta({ example: 'example.com' }),
      rpName: RpName,
      userVerification: UserVerification,
    }),
    messenger: z.object({
      provider: Provider,
      botUsername: BotUsername.nullable(),
      botId: z.string().nullable().meta({ description: 'The number in the bot token.', example: '110201543' }),
      configured: z.boolean().meta({ description: 'Whether a bot token is stored.' }),
    }),
    mfa: z.object({ policy: MfaPolicy, enforceForServer: EnforceForServer }),
    sessions: z.object({ accessTokenSeconds: AccessTokenSeconds, refreshTokenDays: RefreshTokenDays }),
    mpc: z.object({ allowServer: AllowServer }),
    recovery: z.object({ serverCombine: ServerCombine }),
    email: z.object({
      ...EmailSettings,
      webhookSecretSet: z.boolean().meta({ description: 'Whether a secret for `webhookUrl` is stored.' }),
    }),
    emailRecovery: z.object(EmailRecovery),
    budgets: AppBudgets,
    addressBook: z.object({ coolingOffSeconds: CoolingOffSeconds }),
    externalWallets: z.object(ExternalWallets),
    openid: OpenId,
    agents: Agents,
    signInHook: SignInHook,
    branding: Branding,
    metadata: z.record(z.string(), z.string()),
    ...Times,
  })
  .meta({ id: 'App' })
export type App = z.infer<typeof App>

const settings = {
  allowedOrigins: AllowedOrigins.optional(),
  allowedRedirectUrls: AllowedRedirectUrls.optional(),
  passkey: z
    .strictObject({ rpId: RpId.optional(), rpName: RpName.optional(), userVerification: UserVerification.optional() })
    .optional(),
  messenger: z
    .strictObject({
      provider: Provider.optional(),
      botUsername: BotUsername.nullable().optional(),
      botToken: BotToken.nullable().optional(),
    })
    .optional(),
  mfa: z.strictObject({ policy: MfaPolicy.optional(), enforceForServer: EnforceForServer.optional() }).optional(),
  sessions: z
    .strictObject({ accessTokenSeconds: AccessTokenSeconds.optional(), refreshTokenDays: RefreshTokenDays.optional() })
    .optional(),
  mpc: z.strictObject({ allowServer: AllowServer.optional() }).optional(),
  recovery: z.strictObject({ serverCombine: ServerCombine.optional() }).optional(),
  email: z
    .strictObject({
      enabled: EmailSettings.enabled.optional(),
      signUp: EmailSettings.signUp.optional(),
      sender: EmailSettings.sender.optional(),
      webhookUrl: EmailSettings.webhookUrl.optional(),
      webhookSecret: EmailWebhookSecret.nullable().optional(),
      language: EmailSettings.language.optional(),
      testCodes: EmailSettings.testCodes.optional(),
    })
    .optional(),
  emailRecovery: z
    .strictObject({ enabled: EmailRecovery.enabled.optional(), waitHours: EmailRecovery.waitHours.optional() })
    .optional(),
  budgets: AppBudgets.optional(),
  addressBook: z.strictObject({ coolingOffSeconds: CoolingOffSeconds.optional() }).optional(),
  externalWallets: z.strictObject(ExternalWallets).partial().optional(),
  openid: OpenIdChange.optional(),
  agents: AgentsChange.optional(),
  signInHook: SignInHookChange.optional(),
  branding: BrandingChange.optional(),
}

/** Body of POST: a name, and any settings that differ from their defaults. */
export const CreateApp = z
  .strictObject({ name: Name, ...settings, metadata: Metadata.optional() })
  .meta({ id: 'CreateApp' })
export type CreateApp = z.infer<typeof CreateApp>

/** Body of PATCH: nested objects are merged field by field, arrays are replaced. */
export const UpdateApp = z
  .strictObject({
    name: Name.optional(),
    ...settings,
    metadata: z
      .record(z.string().max(200), z.string().nullable())
      .optional()
      .meta({ description: 'Merged by key. null removes a key.', example: { plan: 'gold' } }),
  })
  .meta({ id: 'UpdateApp' })
export type UpdateApp = z.infer<typeof UpdateApp>

export const ListApps = z.strictObject({ ...Paging })
export type ListApps = z.infer<typeof ListApps>

export const DeleteApp = z.strictObject({
  force: z
    .enum(['true', 'false'])
    .optional()
    .meta({ description: '`true` also deletes an app that has users, with all its users.' }),
})
export type DeleteApp = z.infer<typeof DeleteApp>

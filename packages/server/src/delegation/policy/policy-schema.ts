import { z } from 'zod'
import { AMOUNT_PATTERN } from '../../platform/ports/amount.ts'
import { PARTY_PATTERN } from '../../platform/ports/party.ts'

const RULES_MAX = 100
const CONDITIONS_MAX = 20
const LISTED_MAX = 1_000
const VALUE_CHARS_MAX = 1_000
const NAMES_MAX = 100
const SPENDS_MAX = 20
const SYMBOL_CHARS_MAX = 64
const APPROVAL_RULES_MAX = 20
const APPROVAL_SECONDS_MIN = 60
const APPROVAL_SECONDS_MAX = 7 * 86_400
const APPROVERS_MAX = 10
const SESSION_CONDITIONS_MAX = 10
const ZONE_CHARS_MAX = 64
const EXECUTIONS_MAX = 1_000_000
const RATE_SECONDS_MIN = 60
const RATE_SECONDS_MAX = 30 * 86_400

const expected = (text: string) => ({ 'x-expected': text })

const TemplateId = z
  .string()
  // On Canton a package precedes: the hash of the code, in hexadecimal.
  .regex(/^([0-9a-f]{64}:)?[A-Za-z][A-Za-z0-9_.-]{0,63}:[A-Za-z][A-Za-z0-9_.-]{0,63}$/)
  .meta({ ...expected('a template such as Token:Holding'), example: 'Token:Holding' })

/** Templates, each once. */
export const TemplateIds = z
  .array(TemplateId)
  .min(1)
  .max(NAMES_MAX)
  .meta({ uniqueItems: true, ...expected(`a list of 1 to ${NAMES_MAX} templates, each once`) })

// `type` with two entries: a union would report every mistake twice, once for each branch. The list comes first: the
// serialiser takes the first type that it can convert a value to, and every value can be converted to text.
const ConditionValue: z.ZodType<string | string[]> = z.any().meta({
  type: ['array', 'string'],
  maxLength: VALUE_CHARS_MAX,
  minItems: 1,
  maxItems: LISTED_MAX,
  items: { type: 'string', maxLength: VALUE_CHARS_MAX, ...expected(`text of at most ${VALUE_CHARS_MAX} characters`) },
  ...expected(`text of at most ${VALUE_CHARS_MAX} characters, or for in and not_in a list of 1 to ${LISTED_MAX} texts`),
  description:
    'Text. For `in` and `not_in`: a list of texts. For `lt`, `lte`, `gt`, `gte`: an amount or a time. Amounts and times are compared by value: 5.0 equals 5.',
})

/** A condition on one argument. */
export const Condition = z
  .strictObject({
    path: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z_][A-Za-z0-9_]{0,63}){0,7}$/)
      .meta({
        ...expected("an argument's name, or up to eight names with dots between them"),
        description:
          'The argument. If it is a list, every element must match an allow rule; one matching element is enough for a deny rule. An argument that is absent, or cannot be compared, never matches an allow rule and always matches a deny rule.',
        example: 'receiver',
      }),
    op: z.enum(['eq', 'ne', 'in', 'not_in', 'lt', 'lte', 'gt', 'gte']),
    value: ConditionValue,
  })
  .meta({ id: 'PolicyCondition' })
export type Condition = z.infer<typeof Condition>

/** Conditions that must all hold. */
export const Conditions = z
  .array(Condition)
  .min(1)
  .max(CONDITIONS_MAX)
  .meta(expected(`a list of 1 to ${CONDITIONS_MAX} conditions`))

const Rule = z
  .strictObject({
    templateId: TemplateId,
    actions: z
      .array(z.enum(['create', 'exercise']))
      .min(1)
      .max(2)
      .optional()
      .meta({
        uniqueItems: true,
        ...expected('create, exercise, or both, each once'),
        description: 'Default: only `exercise` if `choices` is set, otherwise both.',
      }),
    choices: z
      .array(
        z
          .string()
          .regex(/^[A-Za-z][A-Za-z0-9_]{0,63}$/)
          .meta(expected('the name of a choice such as Transfer')),
      )
      .min(1)
      .max(NAMES_MAX)
      .optional()
      .meta({
        uniqueItems: true,
        ...expected(`a list of 1 to ${NAMES_MAX} choices, each once`),
        description: 'Default: any choice.',
        example: ['Transfer'],
      }),
    where: Conditions.optional(),
  })
  .meta({ id: 'PolicyRule' })
export type Rule = z.infer<typeof Rule>

const Asset = z
  .strictObject({
    issuer: z
      .string()
      .regex(PARTY_PATTERN)
      .meta(expected('a party: a name, "::1220", and 64 hexadecimal digits in lower case')),
    symbol: z
      .string()
      .min(1)
      .max(SYMBOL_CHARS_MAX)
      .meta({ ...expected(`text of 1 to ${SYMBOL_CHARS_MAX} characters`), example: 'USDX' }),
  })
  .meta({ id: 'PolicyAsset' })

const AN_AMOUNT = expected(
  'an amount such as "100.00": text, without sign or exponent, at most 28 digits and 10 decimals',
)

const Spend = z
  .strictObject({
    asset: Asset,
    amount: z
      .string()
      .regex(AMOUNT_PATTERN)
      .optional()
      .meta({
        ...AN_AMOUNT,
        description: 'The most that can be spent within the window. Either this or `unlimited`.',
        example: '100.00',
      }),
    window: z.enum(['lifetime', 'rolling_24h', 'day_utc']).optional().meta({ description: 'Default: lifetime.' }),
    unlimited: z
      .literal(true)
      .optional()
      .meta({ ...expected('true, or absent'), description: 'Instead of `amount`.' }),
  })
  .meta({ id: 'PolicySpend' })
export type Spend = z.infer<typeof Spend>

const Approvers = z
  .strictObject({
    users: z
      .array(
        z
          .string()
          .regex(/^usr_[0-9a-hjkmnp-tv-z]{26}$/)
          .meta({ ...expected("a user's id"), example: 'usr_01jb2m7x9kq4t8v6w0r3s5y1za' }),
      )
      .min(1)
      .max(APPROVERS_MAX)
      .meta({
        uniqueItems: true,
        ...expected(`a list of 1 to ${APPROVERS_MAX} users, each once`),
        description: "Active users of the wallet's app, no guests. The owner approves only if they are among them.",
      }),
    threshold: z.int().min(1).max(APPROVERS_MAX).meta({
      description: 'How many of `users` have to approve, each with their own passkey.',
      example: 2,
    }),
  })
  .meta({
    id: 'PolicyApprovers',
    description:
      "Who is asked instead of the wallet's owner. Each of them can refuse the transaction alone, and so can the owner.",
  })
export type Approvers = z.infer<typeof Approvers>

const ApprovalRule = z
  .strictObject({
    asset: Asset.optional(),
    above: z
      .string()
      .regex(AMOUNT_PATTERN)
      .optional()
      .meta({
        ...AN_AMOUNT,
        description: 'Asks for the owner if one transaction spends more than this of `asset`.',
        example: '5',
      }),
    newRecipient: z
      .literal(true)
      .optional()
      .meta({
        ...expected('true, or absent'),
        description:
          'Instead of `above`: asks if a party is paid to whom those who are asked have approved no payment yet.',
      }),
    approvers: Approvers.optional(),
    expiresInSeconds: z.int().min(APPROVAL_SECONDS_MIN).max(APPROVAL_SECONDS_MAX).optional().meta({
      description:
        'How long the owner has: from one minute to seven days, and never longer than the session. Default: 86400, one day.',
      example: 86_400,
    }),
  })
  .meta({ id: 'PolicyApprovalRule' })
export type ApprovalRule = z.infer<typeof ApprovalRule>

const Hours = z
  .strictObject({
    days: z
      .array(z.enum(['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']))
      .min(1)
      .max(7)
      .optional()
      .meta({
        uniqueItems: true,
        ...expected('a list of mon, tue, wed, thu, fri, sat, sun, each once'),
        description: 'Default: every day.',
      }),
    from: z
      .string()
      .regex(/^([01]\d|2[0-3]):[0-5]\d$/)
      .meta({ ...expected('a time of day from 00:00 to 23:59'), example: '09:00' }),
    to: z
      .string()
      .regex(/^(([01]\d|2[0-3]):[0-5]\d|24:00)$/)
      .meta({
        ...expected('a time of day from 00:00 to 24:00'),
        description:
          'The first minute that is outside. If it is earlier than `from`, the hours end on the next day; `days` are those on which they begin.',
        example: '18:00',
      }),
    timeZone: z
      .string()
      .max(ZONE_CHARS_MAX)
      .regex(/^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+){0,2}$/)
      .meta({
        ...expected('the name of a time zone such as Europe/Zurich'),
        description: 'A name of the IANA time zone database. The hours are those of its local clocks.',
        example: 'Europe/Zurich',
      }),
  })
  .meta({ id: 'PolicyHours' })
export type Hours = z.infer<typeof Hours>

const Rate = z
  .strictObject({
    executions: z.int().min(1).max(EXECUTIONS_MAX).optional().meta({
      description: 'How many transactions may be made within the window. Either this or `asset` and `amount`.',
      example: 10,
    }),
    asset: Asset.optional(),
    amount: z
      .string()
      .regex(AMOUNT_PATTERN)
      .optional()
      .meta({ ...AN_AMOUNT, description: 'How much of `asset` may be spent within the window.', example: '50' }),
    withinSeconds: z.int().min(RATE_SECONDS_MIN).max(RATE_SECONDS_MAX).meta({
      description:
        'The length of the window, which moves with the time: from a minute to 30 days. It is kept in 60 slices. A transaction counts up to one slice longer than the window, never shorter.',
      example: 3600,
    }),
  })
  .meta({ id: 'PolicyRate' })

const SessionCondition = z
  .strictObject({
    hours: Hours.optional().meta({ description: 'Transactions are made within these hours.' }),
    rate: Rate.optional().meta({ description: 'No more than this is done within the window.' }),
    recipients: z
      .literal('address_book')
      .optional()
      .meta({
        ...expected('address_book, or absent'),
        description: "Only parties in the wallet's address book are paid: see `POST /wallets/:id/recipients`.",
      }),
    otherwise: z.enum(['deny', 'require_approval']).optional().meta({
      description:
        "What happens to a transaction that does not meet the condition: it is denied, or the wallet's owner is asked, or `approvers`. Default: deny.",
    }),
    approvers: Approvers.optional(),
    expiresInSeconds: z.int().min(APPROVAL_SECONDS_MIN).max(APPROVAL_SECONDS_MAX).optional().meta({
      description: 'For `require_approval`: how long the owner has. Default: 86400, one day.',
      example: 86_400,
    }),
  })
  .meta({ id: 'PolicySessionCondition', description: 'Exactly one of `hours`, `rate` and `recipients`.' })
export type SessionCondition = z.infer<typeof SessionCondition>

const Rules = z
  .array(Rule)
  .max(RULES_MAX)
  .meta(expected(`a list of at most ${RULES_MAX} rules`))

/** What a delegated session may do. `checkPolicy` checks the rules that a JSON Schema cannot express. */
export const Policy = z
  .strictObject({
    allow: Rules.min(1).meta({
      ...expected(`a list of 1 to ${RULES_MAX} rules`),
      description: 'Rules that allow actions. Everything else is denied.',
    }),
    deny: Rules.optional().meta({ description: 'Rules that deny actions even if an `allow` rule covers them.' }),
    spend: z
      .array(Spend)
      .max(SPENDS_MAX)
      .optional()
      .meta({
        ...expected(`a list of at most ${SPENDS_MAX} entries`),
        description: 'How much can be spent. An asset that is not listed cannot be spent at all.',
      }),
    requireApproval: z
      .array(ApprovalRule)
      .max(APPROVAL_RULES_MAX)
      .optional()
      .meta({
        ...expected(`a list of at most ${APPROVAL_RULES_MAX} rules`),
        description:
          "What the wallet's owner, or `approvers`, have to approve, although `allow` and `spend` cover it. For `embedded` wallets.",
      }),
    conditions: z
      .array(SessionCondition)
      .max(SESSION_CONDITIONS_MAX)
      .optional()
      .meta({
        ...expected(`a list of at most ${SESSION_CONDITIONS_MAX} conditions`),
        description: 'What every transaction has to meet, although `allow` and `spend` cover it.',
      }),
    query: z
      .strictObject({ templateIds: TemplateIds })
      .optional()
      .meta({ description: 'Which contracts can be read. Default: none.' }),
  })
  .meta({ id: 'Policy' })
export type Policy = z.infer<typeof Policy>

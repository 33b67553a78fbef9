import { z } from 'zod'
import { Paging, sortedBy, Time, Times } from '../platform/http/route.ts'
import type { Value as LedgerValue } from '../platform/ports/ledger.ts'
import { NonceCommitments } from '../wallets/custody/schema.ts'
import { Effect, Arguments as FieldValues } from '../wallets/transactions/schema.ts'
import { Budget } from './budgets/budget-schema.ts'
import { Conditions, Policy, TemplateIds } from './policy/policy-schema.ts'
import { BoundKey } from './proofs/bound-key-schema.ts'

const expected = (text: string) => ({ 'x-expected': text })

const SECONDS_MIN = 60
const SECONDS_MAX = 30 * 86_400
const USES_MAX = 1_000_000_000

const Status = z.enum(['active', 'exhausted', 'expired', 'revoked']).meta({
  description: '`exhausted` once `maxUses` transactions have completed. A used-up `spend` does not end a session.',
})

const SpendLeft = z
  .object({
    asset: z.object({ issuer: z.string(), symbol: z.string().meta({ example: 'USDX' }) }),
    window: z.enum(['lifetime', 'rolling_24h', 'day_utc']).nullable(),
    limit: z.string().nullable().meta({ example: '100' }),
    spent: z.string().nullable().meta({ example: '3' }),
    remaining: z.string().nullable().meta({ example: '97' }),
  })
  .meta({ id: 'SpendLeft', description: "An entry of the policy's `spend`. Its amounts are null if it is unlimited." })

/** What a session can still do. */
export const Remaining = z
  .object({
    uses: z.int().nullable().meta({ description: 'Transactions that are left; null without `maxUses`.', example: 9 }),
    spend: z.array(SpendLeft).meta({ description: "In the order of the policy's `spend`." }),
  })
  .meta({ id: 'Remaining' })
export type Remaining = z.infer<typeof Remaining>

/** The same in a response to `execute`, with what is left of the wallet. */
export const RemainingBeside = z
  .object({
    ...Remaining.shape,
    budgets: z.array(Budget).meta({ description: "The budgets that hold for the wallet: its own, then its app's." }),
  })
  .meta({ id: 'RemainingBeside' })
export type RemainingBeside = z.infer<typeof RemainingBeside>

const sessionFields = {
  id: z.string().meta({ example: 'dse_01jb2m7x9kq4t8v6w0r3s5y1zg' }),
  appId: z.string(),
  userId: z.string(),
  walletId: z.string(),
  name: z.string().nullable().meta({ example: 'Shopping agent' }),
  status: Status,
  policy: Policy,
  serverExecute: z
    .boolean()
    .meta({ description: 'Whether a secret key can execute and query without the token.', example: false }),
  boundKeyThumbprint: z.string().nullable().meta({
    description:
      'Thumbprint (RFC 7638) of the key that the session is bound to: every call with its token also needs a proof by that key. Null if the token is enough.',
    example: null,
  }),
  maxUses: z.int().nullable().meta({ example: 10 }),
  uses: z.int().meta({ description: 'Transactions that are completed or in progress.', example: 1 }),
  remaining: Remaining,
  lastUsedAt: Time.nullable(),
  expiresAt: Time,
  revokedAt: Time.nullable(),
  ...Times,
}

export const DelegatedSession = z.object(sessionFields).meta({ id: 'DelegatedSession' })
export type DelegatedSession = z.infer<typeof DelegatedSession>

export const DelegatedSessionWithToken = z
  .object({
    ...sessionFields,
    token: z.string().meta({
      description:
        'Send it as `Authorization: Bearer` to execute and query; with `boundKey`, as `Authorization: DPoP` with a proof. Returned only here.',
      example: 'dst_2wKq8fYx0ZsVbN4mTc7RjLh1PgD9uEiA6oXv3yQk5tJnBz',
    }),
  })
  .meta({ id: 'DelegatedSessionWithToken' })
export type DelegatedSessionWithToken = z.infer<typeof DelegatedSessionWithToken>

export const RevokedDelegatedSession = z
  .object({
    ...sessionFields,
    inFlight: z
      .array(
        z.object({ transactionId: z.string(), commandId: z.string(), ledger: z.string(), expiresAt: Time.nullable() }),
      )
      .meta({
        description:
          'Transactions that were signed before and may still happen, because their ledger has not reported the outcome. Empty on the embedded ledger.',
        example: [],
      }),
  })
  .meta({ id: 'RevokedDelegatedSession' })
export type RevokedDelegatedSession = z.infer<typeof RevokedDelegatedSession>

/** Attempts that one rule refused within one minute. */
export const Denial = z
  .object({
    sessionId: z.string().meta({ example: 'dse_01jb2m7x9kq4t8v6w0r3s5y1zg' }),
    appId: z.string(),
    userId: z.string(),
    walletId: z.string(),
    rule: z.string().meta({
      description: 'The rule of the policy, or the budget of the wallet, that refused.',
      example: 'spend[0]',
    }),
    code: z.enum(['policy_denied', 'spend_limit_exceeded', 'budget_exceeded']),
    message: z.string(),
    command: z.int().nullable().meta({ description: 'Index of the refused command; null for the whole transaction.' }),
    asset: z.object({ issuer: z.string(), symbol: z.string() }).nullable(),
    window: z.enum(['lifetime', 'rolling_24h', 'rolling_30d', 'day_utc']).nullable(),
    limit: z.string().nullable().meta({ example: '10' }),
    spent: z.string().nullable().meta({ example: '9' }),
    asked: z.string().nullable().meta({ description: 'The amount that the last attempt asked for.', example: '3' }),
    remaining: z.string().nullable().meta({ description: 'The amount that would have been allowed.', example: '1' }),
    count: z.int().meta({ description: 'How many attempts were refused in this minute.', example: 4 }),
    firstAt: Time,
    lastAt: Time,
  })
  .meta({ id: 'Denial' })
export type Denial = z.infer<typeof Denial>

export const ListDenials = z.strictObject({
  ...Paging,
  session_id: z.string().optional(),
  user_id: z.string().optional(),
  wallet_id: z.string().optional(),
})
export type ListDenials = z.infer<typeof ListDenials>

export const ListDenialsOfSession = z.strictObject({ ...Paging })

export const ValidatePolicy = z.strictObject({ policy: Policy }).meta({ id: 'ValidatePolicy' })

export const ValidPolicy = z
  .object({ valid: z.literal(true), policy: Policy.meta({ description: 'The policy, as a session would store it.' }) })
  .meta({ id: 'ValidPolicy' })

export const CreateDelegatedSession = z
  .strictObject({
    walletId: z.string().optional().meta({ description: "Default: the user's wallet. A user has only one." }),
    name: z.string().min(1).max(200).optional().meta({ example: 'Shopping agent' }),
    policy: Policy,
    expiresInSeconds: z.int().min(SECONDS_MIN).max(SECONDS_MAX).optional().meta({
      description: 'Lifetime of the session, from one minute to 30 days. Default: 3600, one hour.',
      example: 3600,
    }),
    maxUses: z
      .int()
      .min(1)
      .max(USES_MAX)
      .optional()
      .meta({ description: 'How many transactions the session may make. Default: no limit.', example: 10 }),
    boundKey: BoundKey.optional().meta({
      description:
        "The delegate's public key. Then every call with the token also needs a proof by that key (`DPoP`, RFC 9449), and `serverExecute` is false.",
    }),
    serverExecute: z.boolean().optional().meta({
      description:
        'Whether a secret key can execute without the token. Default: true if a server creates the session of an `embedded` wallet, otherwise false.',
    }),
  })
  .meta({ id: 'CreateDelegatedSession' })
export type CreateDelegatedSession = z.infer<typeof CreateDelegatedSession>

export const ListDelegatedSessions = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt'),
  status: Status.optional(),
  wallet_id: z.string().optional().meta({ description: 'Only sessions on this wallet.' }),
  user_id: z.string().optional().meta({ description: 'Only sessions of this user.' }),
  app_id: z.string().optional().meta({ description: 'Only sessions of this app.' }),
})
export type ListDelegatedSessions = z.infer<typeof ListDelegatedSessions>

export const TEXT_CHARS_MAX = 4_000
export const LISTED_MAX = 100
const FIELDS_MAX = 50

// A list of types: a union would report every mistake twice. What is inside is checked by `valueProblem`.
const Value: z.ZodType<LedgerValue> = z.any().meta({
  type: ['string', 'array', 'object', 'boolean', 'null'],
  maxLength: TEXT_CHARS_MAX,
  maxItems: LISTED_MAX,
  ...expected(`text of at most ${TEXT_CHARS_MAX} characters (amounts too), or a list of at most ${LISTED_MAX} values`),
})

const Arguments = z.record(z.string().max(64), Value).meta({
  maxProperties: FIELDS_MAX,
  description:
    'Values by name. Amounts and all other numbers are texts. The embedded ledger takes texts and lists of texts; others also records (objects), null, true and false.',
  example: { receiver: 'bob::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441', amount: '3' },
})

const NAME_CHARS_MAX = 200

/** One command: creates a contract, or exercises a choice of one. */
const Command = z
  .strictObject({
    create: z
      .strictObject({ templateId: z.string().max(NAME_CHARS_MAX), arguments: Arguments.optional() })
      .optional()
      .meta({ description: 'Creates a contract.' }),
    exercise: z
      .strictObject({
        templateId: z.string().max(NAME_CHARS_MAX).meta({ example: 'Token:Holding' }),
        contractId: z.string().max(NAME_CHARS_MAX),
        choice: z.string().max(NAME_CHARS_MAX).meta({ example: 'Transfer' }),
        arguments: Arguments.optional(),
      })
      .optional()
      .meta({ description: 'Exercises a choice of a contract.' }),
  })
  .meta({ id: 'Command', description: 'Either `create` or `exercise`.' })

const SIGNATURE = /^([0-9a-f]{128}|[A-Za-z0-9+/]{86}==|[A-Za-z0-9_-]{86})$/

export const Execute = z
  .strictObject({
    commandId: z
      .string()
      .regex(/^[\x21-\x7e]{1,200}$/)
      .optional()
      .meta({
        ...expected('1 to 200 visible ASCII characters'),
        description:
          'Your id of this call. A repeat with the same id returns the first result. Default: a generated id.',
        example: 'order-1042',
      }),
    commands: z.array(Command).min(1).max(100).optional().meta({ description: 'All happen or none does.' }),
    commitments: NonceCommitments.optional().meta({
      description:
        'For a `shared` wallet: your commitments to fresh nonces (FROST, RFC 9591, round one). The response has the service’s commitments and its part of the signature.',
    }),
    dryRun: z.boolean().optional().meta({ description: 'Returns what would happen and why, and changes nothing.' }),
    signingRequestId: z
      .string()
      .optional()
      .meta({ description: 'Instead of `commands`: the signing request that `signature` is for.' }),
    signature: z
      .string()
      .regex(SIGNATURE)
      .optional()
      .meta({
        ...expected('an Ed25519 signature: 64 bytes as 128 hexadecimal digits or base64'),
        description: "The wallet key's signature over the signing request's digest.",
      }),
  })
  .meta({ id: 'Execute' })
export type Execute = z.infer<typeof Execute>

const Trace = z
  .object({
    command: z.int(),
    allowed: z.boolean(),
    rule: z.string(),
    action: z.string().meta({ example: 'exercise Token:Holding Transfer' }),
    rules: z.array(z.object({ rule: z.string(), matched: z.boolean(), reason: z.string() })),
    rulesLeftOut: z.int(),
  })
  .meta({ id: 'CommandTrace' })

const Decision = z
  .object({
    allowed: z.boolean(),
    code: z.string().nullable().meta({
      description: 'The error code of a call without `dryRun`; `approval_required` if that would ask the owner.',
      example: null,
    }),
    rule: z.string().meta({
      description: 'The rule that decided: `allow[0]`, `deny[1]`, `spend[0]`, `requireApproval[0]`, `budgets[0]`, …',
      example: 'allow[0]',
    }),
    command: z.int().nullable(),
    message: z.string(),
    trace: z
      .array(Trace)
      .meta({ description: 'For each command, the rules that were checked and why they matched or not.' }),
  })
  .meta({ id: 'PolicyDecision' })
export type Decision = z.infer<typeof Decision>

const SigningRequest = z
  .object({
    id: z.string().meta({ description: "The transaction's id. Send it as `signingRequestId`." }),
    preparedTransaction: z.string().meta({ description: 'Base64: the exact bytes of the prepared transaction.' }),
    digest: z.string().meta({
      description:
        'Hex: SHA-256 over `halfkey/transaction-digest/v1`, a zero byte and the prepared bytes. Compute it yourself instead of trusting this value.',
    }),
    publicKey: z.string().meta({ description: 'Hex: the public key of the signature.' }),
    serverCommitments: NonceCommitments.nullable().meta({
      description: 'For a `shared` wallet: the service’s commitments, made only for this signature.',
    }),
    serverSignatureShare: z.string().nullable().meta({
      description: 'For a `shared` wallet: the service’s part of the signature, 32 bytes in hex (RFC 9591, round two).',
    }),
    expiresAt: Time,
  })
  .meta({ id: 'SigningRequest' })

export const AskedApproval = z
  .object({
    id: z.string().meta({ example: 'apr_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
    link: z.string().meta({
      description: 'Where the owner decides. Give it to them; it holds no secret.',
      example: 'https://auth.example.com/approve?app=app_01jb2m7x9kq4t8v6w0r3s5y1zb&id=apr_01jb2m7x9kq4t8v6w0r3s5y1zh',
    }),
    expiresAt: Time.meta({ description: 'Until then the owner can decide. Repeat the call to find out.' }),
  })
  .meta({ id: 'AskedApproval' })

export const Execution = z
  .object({
    transactionId: z
      .string()
      .nullable()
      .meta({ description: 'Null for a dry run.', example: 'tx_01jb2m7x9kq4t8v6w0r3s5y1zh' }),
    commandId: z.string().meta({ example: 'order-1042' }),
    status: z
      .enum([
        'received',
        'reserved',
        'approval_required',
        'signature_required',
        'submitted',
        'completed',
        'failed',
        'dry_run',
      ])
      .meta({
        description:
          '`approval_required`: a rule of the policy asks for the owner; see `approval`. Nothing is signed. `submitted`: signed and sent, but the ledger has not reported the outcome. Repeat the call with the same `commandId`.',
      }),
    updateId: z.string().nullable(),
    offset: z.int().nullable(),
    effects: z.array(Effect),
    remaining: RemainingBeside,
    signingRequest: SigningRequest.nullable().meta({ description: "What the wallet's owner must sign." }),
    approval: AskedApproval.nullable().meta({ description: "What the wallet's owner must approve." }),
    decision: Decision.nullable().meta({ description: 'For a dry run: the decision of the policy.' }),
  })
  .meta({ id: 'Execution' })
export type Execution = z.infer<typeof Execution>

export const QueryContracts = z
  .strictObject({
    templateIds: TemplateIds.optional().meta({
      description: "Some of the policy's `query.templateIds`. Default: all of them.",
    }),
    where: Conditions.optional().meta({
      description: "Only contracts whose fields match, by the same conditions as in a policy's rules.",
    }),
    limit: z.int().min(1).max(100).optional().meta({ description: 'Contracts per page (default 20).' }),
    cursor: z
      .string()
      .min(1)
      .max(500)
      .nullable()
      .optional()
      .meta({ description: '`nextCursor` of the previous page.', example: null }),
  })
  .meta({ id: 'QueryContracts' })
export type QueryContracts = z.infer<typeof QueryContracts>

export const Contracts = z
  .object({
    contracts: z.array(
      z
        .object({
          contractId: z.string(),
          templateId: z.string(),
          arguments: FieldValues,
          signatories: z.array(z.string()),
          observers: z.array(z.string()),
          createdAtOffset: z.int(),
        })
        .meta({ id: 'Contract' }),
    ),
    nextCursor: z.string().nullable().meta({
      description:
        'Null on the last page. A page can have fewer contracts than `limit`, or none with `where`, although more pages follow. Rely on this field.',
    }),
  })
  .meta({ id: 'Contracts' })
export type Contracts = z.infer<typeof Contracts>

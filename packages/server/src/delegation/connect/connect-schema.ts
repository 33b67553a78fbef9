import { z } from 'zod'
import { AMOUNT_PATTERN } from '../../platform/ports/amount.ts'
import { PARTY_PATTERN } from '../../platform/ports/party.ts'
import { Policy } from '../policy/policy-schema.ts'
import { RehearsedPolicy } from '../rehearse/rehearsal-schema.ts'

const SECONDS_MIN = 60
const SECONDS_MAX = 30 * 86_400
const USES_MAX = 1_000_000_000
const SPENDS_MAX = 20
const RECIPIENTS_MAX = 50

const expected = (text: string) => ({ 'x-expected': text })

const ExpiresInSeconds = z.int().min(SECONDS_MIN).max(SECONDS_MAX)

/** What a client asks for, as `authorization_details` (RFC 9396). */
export const AgentDetails = z
  .array(
    z.strictObject({
      type: z.literal('halfkey_delegated_session'),
      policy: Policy,
      expiresInSeconds: ExpiresInSeconds.optional(),
      maxUses: z.int().min(1).max(USES_MAX).optional(),
    }),
  )
  .min(1)
  .max(1)
export type AgentDetails = z.infer<typeof AgentDetails>

const Asset = z.object({ issuer: z.string(), symbol: z.string() })

/** What an agent's client asks the current user for. */
export const AgentRequest = z
  .object({
    id: z.string(),
    client: z.object({ id: z.string(), name: z.string().nullable(), host: z.string() }),
    /** Where the answer goes: to a host, to the app of a scheme, or to a program on the user's own device. */
    redirect: z.object({ kind: z.enum(['website', 'app', 'device']), name: z.string() }),
    wallet: z
      .object({
        partyId: z.string(),
        frozen: z.boolean(),
        custody: z.enum(['embedded', 'shared', 'self_custody']),
      })
      .nullable(),
    /** Null: the client asked for nothing in particular, and the user sets amounts of what they hold. */
    policy: Policy.nullable(),
    words: RehearsedPolicy.shape.words,
    warnings: RehearsedPolicy.shape.warnings,
    expiresInSeconds: z.int().nullable(),
    /** What the page proposes: what was asked for, or a week. */
    proposedSeconds: z.int(),
    maxUses: z.int().nullable(),
    /** Without a policy: what the wallet holds. Null if the ledger cannot say. */
    holdings: z.array(z.object({ asset: Asset, amount: z.string() })).nullable(),
  })
  .meta({ id: 'AgentRequest' })
export type AgentRequest = z.infer<typeof AgentRequest>

/** What the user allows of what is asked for. */
export const ConnectAgent = z
  .strictObject({
    spend: z
      .array(
        z.strictObject({
          asset: z.strictObject({
            issuer: z.string().regex(PARTY_PATTERN).meta(expected('a party')),
            symbol: z.string().min(1).max(64),
          }),
          amount: z
            .string()
            .regex(AMOUNT_PATTERN)
            .nullable()
            .meta({ ...expected('an amount such as "100.00"'), description: 'null: as asked for, without a limit.' }),
        }),
      )
      .max(SPENDS_MAX)
      .meta({ description: 'With a policy: an entry for each of its entries, in the same order.' }),
    recipients: z
      .array(z.string().regex(PARTY_PATTERN).meta(expected('a party')))
      .min(1)
      .max(RECIPIENTS_MAX)
      .nullable()
      .meta({ uniqueItems: true, description: 'The only parties that may be paid; null: as asked for.' }),
    expiresInSeconds: ExpiresInSeconds,
  })
  .meta({ id: 'ConnectAgent' })
export type ConnectAgent = z.infer<typeof ConnectAgent>

/** Where the page goes next. */
export const AgentAnswer = z.object({ redirectTo: z.string() }).meta({ id: 'AgentAnswer' })
export type AgentAnswer = z.infer<typeof AgentAnswer>

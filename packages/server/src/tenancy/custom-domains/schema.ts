import { z } from 'zod'
import { Paging, Time, Times } from '../../platform/http/route.ts'

const DOMAIN_CHARS_MAX = 1_000
const STATUSES = ['pending', 'verified', 'failed'] as const

const Domain = z.string().min(1).max(DOMAIN_CHARS_MAX).meta({
  description: 'A host name without scheme, port or path. Unicode is taken and kept as punycode, in lower case.',
  example: 'login.example.com',
})

const AppId = z.string().meta({
  description: "The app whose users meet it; the tenant's default app when left out.",
  example: 'app_01jb2m7x9kq4t8v6w0r3s5y1zb',
})

/** A custom domain in replies. */
export const CustomDomain = z
  .object({
    id: z.string().meta({ example: 'dom_01jb2m7x9kq4t8v6w0r3s5y1zm' }),
    domain: z.string().meta({ description: 'Lower case, punycode, no trailing dot.', example: 'login.example.com' }),
    appId: z.string(),
    status: z.enum(STATUSES).meta({
      description:
        '`pending` until the record was seen, `verified` from then on, `failed` once it has been missing for 72 hours.',
    }),
    verification: z
      .object({
        type: z.literal('TXT'),
        name: z.string().meta({ example: '_halfkey.login.example.com' }),
        value: z.string().meta({ example: 'halfkey-verification=2f0d…' }),
      })
      .meta({ description: 'The record that proves the domain. Keep it: it is looked at every day.' }),
    target: z
      .object({
        type: z.literal('CNAME'),
        name: z.string().meta({ example: 'login.example.com' }),
        value: z.string().meta({ example: 'id.example.net' }),
      })
      .meta({ description: 'The record that brings users here.' }),
    lastCheckedAt: Time.nullable(),
    missingSince: Time.nullable().meta({
      description: "Since when a verified domain's record has been seen to be missing; 72 hours later it is `failed`.",
    }),
    error: z
      .enum(['dns_record_missing', 'dns_unavailable', 'domain_taken'])
      .nullable()
      .meta({ description: 'Why the last look was in vain.' }),
    ...Times,
  })
  .meta({ id: 'CustomDomain' })
export type CustomDomain = z.infer<typeof CustomDomain>

export const CreateCustomDomain = z
  .strictObject({ domain: Domain, appId: AppId.optional() })
  .meta({ id: 'CreateCustomDomain' })
export type CreateCustomDomain = z.infer<typeof CreateCustomDomain>

export const VerifyCustomDomain = z.strictObject({ domain: Domain }).meta({ id: 'VerifyCustomDomain' })
export type VerifyCustomDomain = z.infer<typeof VerifyCustomDomain>

export const RemoveCustomDomain = z.strictObject({ domain: Domain.optional() }).meta({ id: 'RemoveCustomDomain' })
/** The same in the query: not every client sends a body with DELETE. */
export const RemovedDomain = z.strictObject({ domain: Domain.optional() })
export type RemoveCustomDomain = z.infer<typeof RemoveCustomDomain>

export const ListCustomDomains = z.strictObject({
  ...Paging,
  app_id: z.string().optional(),
  status: z.enum(STATUSES).optional(),
})
export type ListCustomDomains = z.infer<typeof ListCustomDomains>

const Reach = z.enum(['same_site', 'related_origin', 'too_many_sites', 'none']).meta({
  description:
    'Whether passkeys of a relying party work on the domain: it is under the `rpId`; or browsers find it in the `rpId`’s list of related origins; or it stands there behind more sites than they heed; or not.',
})

/** What it takes to use an app's passkeys on a domain. */
export const DomainPlan = z
  .object({
    domain: z.string(),
    appId: z.string(),
    rpId: z.string().meta({ description: 'The app’s present relying party.', example: 'id.example.net' }),
    reach: Reach,
    passkeys: z.array(z.object({ rpId: z.string(), count: z.int(), reach: Reach })).meta({
      description: 'How many of the app’s passkeys belong to which relying party; up to 100 000 are counted.',
    }),
    steps: z
      .array(
        z.object({
          code: z.enum([
            'verify_domain',
            'serve_related_origins',
            'be_listed',
            'lead_users_there',
            'keep_relying_party',
          ]),
          done: z.boolean().nullable().meta({ description: 'null for what the service cannot know.' }),
          text: z.string(),
        }),
      )
      .meta({ description: 'In the order in which to take them.' }),
  })
  .meta({ id: 'DomainPlan' })
export type DomainPlan = z.infer<typeof DomainPlan>

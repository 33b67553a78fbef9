import { z } from 'zod'
import { Paging, sortedBy, Time, Times } from '../../platform/http/route.ts'

const DOMAIN_CHARS_MAX = 1_000
const STATUSES = ['pending', 'verified', 'failed'] as const

const Domain = z.string().min(1).max(DOMAIN_CHARS_MAX).meta({
  description: 'A host name without scheme, port or path. Unicode is accepted and stored as punycode, in lower case.',
  example: 'login.example.com',
})

const AppId = z.string().meta({
  description: "The app whose users use the domain. Default: the key's app, or the tenant's default app.",
  example: 'app_01jb2m7x9kq4t8v6w0r3s5y1zb',
})

/** A custom domain in responses. */
export const CustomDomain = z
  .object({
    id: z.string().meta({ example: 'dom_01jb2m7x9kq4t8v6w0r3s5y1zm' }),
    domain: z.string().meta({ description: 'Lower case, punycode, no trailing dot.', example: 'login.example.com' }),
    appId: z.string(),
    status: z.enum(STATUSES).meta({
      description:
        '`pending` until the record is found, then `verified`. `failed` after the record has been missing for 72 hours.',
    }),
    verification: z
      .object({
        type: z.literal('TXT'),
        name: z.string().meta({ example: '_halfkey.login.example.com' }),
        value: z.string().meta({ example: 'halfkey-verification=2f0d…' }),
      })
      .meta({ description: 'The record that proves the domain. Keep it: the service checks it every day.' }),
    target: z
      .object({
        type: z.literal('CNAME'),
        name: z.string().meta({ example: 'login.example.com' }),
        value: z.string().meta({ example: 'id.example.net' }),
      })
      .meta({ description: 'The record that leads users to the service.' }),
    lastCheckedAt: Time.nullable(),
    missingSince: Time.nullable().meta({
      description:
        'Since when the record of a verified domain is missing. After 72 hours, the status becomes `failed`.',
    }),
    error: z
      .enum(['dns_record_missing', 'dns_unavailable', 'domain_taken'])
      .nullable()
      .meta({ description: 'Why the last check failed.' }),
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
/** The same in the query, because not every client sends a body with DELETE. */
export const RemovedDomain = z.strictObject({ domain: Domain.optional() })
export type RemoveCustomDomain = z.infer<typeof RemoveCustomDomain>

export const ListCustomDomains = z.strictObject({
  ...Paging,
  ...sortedBy('createdAt', 'domain'),
  app_id: z.string().optional(),
  status: z.enum(STATUSES).optional(),
})
export type ListCustomDomains = z.infer<typeof ListCustomDomains>

const Reach = z.enum(['same_site', 'related_origin', 'too_many_sites', 'none']).meta({
  description:
    'Whether passkeys of a relying party work on the domain. `same_site`: the domain is the `rpId` or below it. `related_origin`: browsers find the domain in the list of related origins of the `rpId`. `too_many_sites`: the domain is in that list, but after more sites than browsers read. `none`: they do not work.',
})

/** The steps for using an app's passkeys on a domain. */
export const DomainPlan = z
  .object({
    domain: z.string(),
    appId: z.string(),
    rpId: z.string().meta({ description: 'The app’s current relying party.', example: 'id.example.net' }),
    reach: Reach,
    passkeys: z.array(z.object({ rpId: z.string(), count: z.int(), reach: Reach })).meta({
      description: 'How many of the app’s passkeys belong to each relying party. Up to 100 000 are counted.',
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
          done: z.boolean().nullable().meta({ description: 'null if the service cannot know it.' }),
          text: z.string(),
        }),
      )
      .meta({ description: 'The steps, in order.' }),
  })
  .meta({ id: 'DomainPlan' })
export type DomainPlan = z.infer<typeof DomainPlan>

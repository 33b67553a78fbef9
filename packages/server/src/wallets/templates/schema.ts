import { z } from 'zod'
import { Paging, Time } from '../../platform/http/route.ts'

const expected = (text: string) => ({ 'x-expected': text })

const FIELDS_MAX = 50
const CHOICES_MAX = 50
const CREATES_MAX = 10

const Name = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_]{0,63}$/)
  .meta(expected('a name of letters, digits and underscores, beginning with a letter'))

/** The form of a template id. */
export const TEMPLATE_ID_PATTERN = /^[A-Za-z][A-Za-z0-9_.-]{0,63}:[A-Za-z][A-Za-z0-9_.-]{0,63}$/

const TemplateId = z
  .string()
  .regex(TEMPLATE_ID_PATTERN)
  .meta({ ...expected('two names with a colon between them, such as Shop:Voucher'), example: 'Shop:Voucher' })

const Field = z
  .strictObject({
    type: z.enum(['party', 'parties', 'text', 'symbol', 'amount', 'contract_ids']),
    optional: z.boolean().optional(),
  })
  .meta({ id: 'TemplateField' })

const Fields = z.record(Name, Field).meta({ maxProperties: FIELDS_MAX })

const Names = z.array(Name).min(1).max(FIELDS_MAX)

const Source = z
  .strictObject({ field: Name.optional(), argument: Name.optional(), value: z.string().max(4_000).optional() })
  .meta({
    id: 'TemplateSource',
    description: 'Set exactly one: a field of the contract, an argument of the choice, or a fixed text.',
  })

const Choice = z
  .strictObject({
    controllers: Names.meta({
      description: 'Fields that hold parties. All these parties must act together.',
      example: ['owner'],
    }),
    arguments: Fields.optional().meta({ description: 'Arguments of the choice.', example: {} }),
    consuming: z.boolean().optional().meta({ description: 'Whether the choice archives the contract (default true).' }),
    creates: z
      .array(
        z.strictObject({
          templateId: TemplateId,
          arguments: z.record(Name, Source).meta({ maxProperties: FIELDS_MAX }),
        }),
      )
      .max(CREATES_MAX)
      .optional()
      .meta({ description: 'Contracts that it creates, in order.', example: [] }),
  })
  .meta({ id: 'TemplateChoice' })

const definition = {
  templateId: TemplateId,
  description: z.string().max(1_000).optional(),
  fields: Fields.meta({
    description: 'Fields of a contract.',
    example: { issuer: { type: 'party' }, owner: { type: 'party' }, value: { type: 'amount' } },
  }),
  signatories: Names.meta({ description: 'Fields that hold the parties who sign it.', example: ['issuer'] }),
  observers: z
    .array(Name)
    .max(FIELDS_MAX)
    .optional()
    .meta({ description: 'Fields that hold parties who see it.', example: ['owner'] }),
  choices: z
    .record(Name, Choice)
    .optional()
    .meta({
      maxProperties: CHOICES_MAX,
      description: 'Choices that can be exercised on a contract.',
      example: { Redeem: { controllers: ['owner'] } },
    }),
}

export const DeclareTemplate = z.strictObject(definition).meta({ id: 'DeclareTemplate' })
export type DeclareTemplate = z.infer<typeof DeclareTemplate>

/** A template that a tenant declared. */
export const Template = z
  .object({
    ...definition,
    description: z.string().nullable(),
    observers: z.array(Name),
    choices: z.record(Name, Choice),
    createdAt: Time,
  })
  .meta({ id: 'Template' })
export type Template = z.infer<typeof Template>

export const ListTemplates = z.strictObject({ ...Paging })
export type ListTemplates = z.infer<typeof ListTemplates>

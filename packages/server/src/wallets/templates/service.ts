import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { type ErrorDetail, type ErrorTable, existing, failures } from '../../platform/http/errors.ts'
import { type Call, type Caller, type Page, paging } from '../../platform/http/route.ts'
import {
  type DeclaredTemplate,
  type Definition,
  declareTemplate,
  findFlaws,
  findTemplate,
  isReserved,
  listTemplates,
  TEMPLATES_MAX,
} from '../ledger/embedded/template-catalogue.ts'
import { type DeclareTemplate, type ListTemplates, TEMPLATE_ID_PATTERN, type Template } from './schema.ts'

export const TEMPLATE_ERRORS = {
  template_limit_reached: [
    409,
    `This tenant has ${TEMPLATES_MAX} templates, which is the limit. Templates cannot be deleted.`,
  ],
} as const satisfies ErrorTable

const fail = failures(TEMPLATE_ERRORS)

const toTemplate = ({ definition, createdAt }: DeclaredTemplate): Template => ({
  ...(definition as DeclareTemplate),
  description: definition.description ?? null,
  observers: definition.observers ?? [],
  choices: (definition.choices as Template['choices'] | undefined) ?? {},
  createdAt: createdAt.toISOString(),
})

/** Errors for sources that do not have exactly one value. Their schema cannot express this. */
function checkSources(input: DeclareTemplate): ErrorDetail[] {
  return Object.entries(input.choices ?? {}).flatMap(([name, choice]) =>
    (choice.creates ?? []).flatMap((created, index) =>
      Object.entries(created.arguments)
        .filter(([, source]) => Object.keys(source).length !== 1)
        .map(([field]) => ({
          field: `choices.${name}.creates.${index}.arguments.${field}`,
          code: 'invalid',
          message: 'Must have exactly one of "field", "argument" and "value".',
        })),
    ),
  )
}

/**
 * Declares a template of the embedded ledger, as data. It never changes, because contracts depend on it.
 * @throws validation_failed, already_exists, template_limit_reached
 */
export async function createTemplate(deps: Deps, call: Call, input: DeclareTemplate): Promise<Template> {
  const { caller } = call
  const wrong = checkSources(input)
  if (isReserved(input.templateId))
    wrong.push({
      field: 'templateId',
      code: 'reserved',
      message: 'Must not begin with Token: or Note:, which are reserved for built-in templates.',
    })
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  const definition = input as Definition
  const flaws = await findFlaws(deps.db, caller.tenantId, definition)
  if (flaws.length > 0)
    throw fail(
      'validation_failed',
      flaws.slice(0, 50).map((flaw) => ({ ...flaw, code: 'invalid' })),
    )
  const { tenantId } = caller
  const declared = await declareTemplate(deps.db, tenantId, definition, deps.now(), (tx) =>
    recordAuditOnly(tx, deps, {
      tenantId,
      appId: null,
      action: 'template.created',
      target: input.templateId,
      cause: call,
    }),
  )
  if (declared === 'full') throw fail('template_limit_reached')
  if (declared === 'taken')
    throw fail('already_exists').about(
      'templateId',
      'A template with this id exists, and templates never change. Declare the new version with a new name.',
    )
  return toTemplate(declared)
}

/** One declared template. @throws not_found */
export async function getTemplate(deps: Deps, caller: Caller, templateId: string): Promise<Template> {
  // A text that the database cannot store is an unknown id too.
  const isId = TEMPLATE_ID_PATTERN.test(templateId)
  return toTemplate(existing(isId ? await findTemplate(deps.db, caller.tenantId, templateId) : undefined))
}

/** A page of the tenant's declared templates, newest first. */
export async function pageTemplates(deps: Deps, caller: Caller, query: ListTemplates): Promise<Page<Template>> {
  const { page, pageSize, offset } = paging(query)
  const { items, total } = await listTemplates(deps.db, caller.tenantId, { offset, pageSize })
  return { items: items.map(toTemplate), total, page, pageSize }
}

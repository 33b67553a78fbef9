import type { Db } from '../../../platform/db/db.ts'
import type { Deps } from '../../../platform/deps.ts'
import { recordAuditOnly } from '../../../platform/events/audit-only-entries.ts'
import { publish } from '../../../platform/events/events.ts'
import { existing } from '../../../platform/http/errors.ts'
import { type Call, type Caller, type Page, paging } from '../../../platform/http/route.ts'
import type { Id } from '../../../platform/ids.ts'
import { getApp, lockOwnApp } from '../../../tenancy/apps/service.ts'
import { EMAIL_KINDS, EmailKind, EmailLanguage, isNotice } from '../schema.ts'
import { brandOf } from '../send.ts'
import { type EmailContent, renderEmail, type Template } from '../template.ts'
import { checkTemplate } from './check.ts'
import { effectiveOf } from './effective.ts'
import { RULES } from './placeholders.ts'
import type {
  EmailPreview,
  EmailTemplate,
  EmailTemplateParams,
  ListEmailTemplates,
  PreviewEmailTemplate,
  SetEmailTemplate,
} from './schema.ts'
import * as store from './store.ts'

type Which = Pick<store.OfTemplate, 'kind' | 'language'>

function shown(appId: string, { kind, language }: Which, row: store.TemplateRow | undefined): EmailTemplate {
  const { template, updatedAt } = effectiveOf(row, kind, language)
  const { subject, text, html } = template
  return {
    appId,
    kind,
    language,
    subject,
    text,
    html,
    isDefault: updatedAt === null,
    placeholders: [...RULES[kind].allowed],
    required: [...RULES[kind].required],
    updatedAt: updatedAt?.toISOString() ?? null,
  }
}

/** A template as it is stored: with the line ends of Unix, whatever a form sends. */
const templateOf = ({ subject, text, html = null }: SetEmailTemplate): Template => ({
  subject: subject.trim(),
  text: text.replaceAll('\r\n', '\n'),
  html: html?.replaceAll('\r\n', '\n') ?? null,
})

/** @throws not_found */
function whichOf({ kind, language }: EmailTemplateParams): Which {
  return { kind: existing(EmailKind.safeParse(kind).data), language: existing(EmailLanguage.safeParse(language).data) }
}

/** A page of an app's emails, by kind and then by language. @throws not_found */
export async function listTemplates(
  deps: Deps,
  caller: Caller,
  id: string,
  query: ListEmailTemplates,
): Promise<Page<EmailTemplate>> {
  const appId = (await getApp(deps, caller, id)).id as Id<'app'>
  const rows = await store.templatesOf(deps.db, caller.tenantId, appId)
  const all = EMAIL_KINDS.filter((kind) => query.kind === undefined || kind === query.kind).flatMap((kind) =>
    EmailLanguage.options
      .filter((language) => query.language === undefined || language === query.language)
      .map((language) => ({ kind, language })),
  )
  const { page, pageSize, offset } = paging(query)
  const items = all.slice(offset, offset + pageSize).map((which) =>
    shown(
      appId,
      which,
      rows.find(({ kind, language }) => kind === which.kind && language === which.language),
    ),
  )
  return { items, total: all.length, page, pageSize }
}

/** Records who changed what users read: in the audit log under the email's kind and language, and as an event of the app. */
async function tell(
  tx: Db,
  deps: Deps,
  cause: Call,
  app: { id: Id<'app'>; tenant_id: Id<'ten'>; name: string },
  { kind, language }: Which,
  action: 'email_template.updated' | 'email_template.deleted',
): Promise<void> {
  const of = { tenantId: app.tenant_id, appId: app.id, cause }
  await recordAuditOnly(tx, deps, { ...of, action, target: `${kind}.${language}` })
  const changed = [`emailTemplates.${kind}.${language}`]
  await publish(tx, deps, { ...of, type: 'app.updated', data: { appId: app.id, name: app.name, changed } })
}

/** Stores how an email of an app is written. @throws not_found, validation_failed (names fields and placeholders) */
export async function setTemplate(
  deps: Deps,
  call: Call,
  params: EmailTemplateParams,
  input: SetEmailTemplate,
): Promise<EmailTemplate> {
  const which = whichOf(params)
  return deps.db.tx(async (tx) => {
    const app = await lockOwnApp(tx, call.caller, params.id)
    const template = templateOf(input)
    checkTemplate(which.kind, template)
    const of = { tenant_id: app.tenant_id, app_id: app.id, ...which }
    const before = await store.findTemplate(tx, of)
    const { subject, text, html } = template
    if (before !== undefined && before.subject === subject && before.text === text && before.html === html)
      return shown(app.id, which, before)
    const row = { ...of, ...template, updated_at: deps.now() }
    await store.setTemplate(tx, row)
    await tell(tx, deps, call, app, which, 'email_template.updated')
    return shown(app.id, which, row)
  })
}

/** Goes back to the default. @throws not_found, but not for an email that has the default already */
export async function resetTemplate(deps: Deps, call: Call, params: EmailTemplateParams): Promise<EmailTemplate> {
  const which = whichOf(params)
  return deps.db.tx(async (tx) => {
    const app = await lockOwnApp(tx, call.caller, params.id)
    const had = await store.deleteTemplate(tx, { tenant_id: app.tenant_id, app_id: app.id, ...which })
    if (had) await tell(tx, deps, call, app, which, 'email_template.deleted')
    return shown(app.id, which, undefined)
  })
}

/** Values that no email has. */
function sampleOf({ kind, language }: Which, appName: string, now: Date): EmailContent {
  if (!isNotice(kind))
    return {
      purpose: kind,
      language,
      appName,
      code: '123456',
      link: 'https://app.example.com/signed-in#email_code=123456',
    }
  const link = kind === 'recovery_completed' ? null : 'https://id.example.com/signin#cancel_recovery=sample'
  return { purpose: kind, language, appName, code: null, link, at: now.toISOString() }
}

/** Writes an email with sample values. Nothing is stored or sent. @throws not_found, validation_failed */
export async function previewTemplate(
  deps: Deps,
  caller: Caller,
  id: string,
  { kind, language, ...input }: PreviewEmailTemplate,
): Promise<EmailPreview> {
  const { id: appId, name, branding } = await getApp(deps, caller, id)
  const template = templateOf(input)
  checkTemplate(kind, template)
  const brand = await brandOf(deps, caller.tenantId, appId as Id<'app'>, branding)
  return renderEmail(sampleOf({ kind, language }, name, deps.now()), template, brand)
}

import { IdParam, list, one, type Route, route, secretKey } from '../../../platform/http/route.ts'
import {
  EmailPreview,
  EmailTemplate,
  EmailTemplateParams,
  ListEmailTemplates,
  PreviewEmailTemplate,
  SetEmailTemplate,
} from './schema.ts'
import { listTemplates, previewTemplate, resetTemplate, setTemplate } from './service.ts'

/** The endpoints of how the emails of an app are written. */
export const templateRoutes: Route[] = [
  route(
    'GET /apps/:id/email-templates',
    {
      summary: 'List the email templates of an app',
      description:
        'One for each kind of email and language, with the text that is sent now: the one that the app has written, or the default.',
      callers: secretKey('apps:read'),
      params: IdParam,
      query: ListEmailTemplates,
      reply: list(EmailTemplate),
      extension: true,
    },
    (deps, { caller, params, query }) => listTemplates(deps, caller, params.id, query),
  ),
  route(
    'POST /apps/:id/email-templates/preview',
    {
      summary: 'Preview an email template',
      description: 'Writes an email from a draft and sample values. Nothing is stored or sent.',
      callers: secretKey('apps:read'),
      params: IdParam,
      body: PreviewEmailTemplate,
      reply: one(EmailPreview),
      reads: true,
      extension: true,
    },
    (deps, { caller, params, body }) => previewTemplate(deps, caller, params.id, body),
  ),
  route(
    'PUT /apps/:id/email-templates/:kind/:language',
    {
      summary: 'Set an email template',
      description:
        'Replaces what the app has written for this email. Emails that are waiting to be sent use it too. 400 names each unknown or missing placeholder, and HTML that is not allowed. Emits `app.updated` if something changed.',
      callers: secretKey('apps:write'),
      params: EmailTemplateParams,
      body: SetEmailTemplate,
      reply: one(EmailTemplate),
      extension: true,
    },
    (deps, { caller, origin, params, body }) => setTemplate(deps, { caller, origin }, params, body),
  ),
  route(
    'DELETE /apps/:id/email-templates/:kind/:language',
    {
      summary: 'Reset an email template',
      description: 'The default is sent again. Returns the default. Emits `app.updated` if the app had another.',
      callers: secretKey('apps:write'),
      params: EmailTemplateParams,
      reply: one(EmailTemplate),
      extension: true,
    },
    (deps, { caller, origin, params }) => resetTemplate(deps, { caller, origin }, params),
  ),
]

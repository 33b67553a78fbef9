import { eitherKey, one, type Route, route } from '../../platform/http/route.ts'
import { SignedIn } from '../users/schema.ts'
import { MessengerWidget, VerifyMessenger, WidgetConfig } from './schema.ts'
import { verifyMessenger, widgetConfig } from './service.ts'

export const messengerRoutes: Route[] = [
  route(
    'POST /auth/messenger/verify',
    {
      summary: 'Sign in by messenger',
      description:
        'Takes what Telegram gave to the page: the fields of the login widget, or the `initData` of a Mini App. It is accepted once, and within 24 hours of `auth_date`. Who comes for the first time becomes a new user, with `user.created`; nobody is linked to an existing user by a name or an email.',
      callers: eitherKey('auth:write', 'ignored'),
      body: VerifyMessenger,
      reply: one(SignedIn),
      secret: true,
      limit: 'sign_in',
      errors: ['messenger_not_configured', 'messenger_signature_invalid', 'user_suspended', 'quota_exceeded'],
    },
    (deps, { caller, origin, body }) => verifyMessenger(deps, { caller, origin }, body),
  ),
  route(
    'GET /auth/messenger/widget-config',
    {
      summary: 'Get what the login widget needs',
      description: "The app's bot, and where to send the browser instead of showing Telegram's widget.",
      callers: eitherKey('auth:write', 'ignored'),
      query: WidgetConfig,
      reply: one(MessengerWidget),
      errors: ['messenger_not_configured'],
    },
    (deps, { caller, origin, query }) => widgetConfig(deps, { caller, origin }, query),
  ),
]

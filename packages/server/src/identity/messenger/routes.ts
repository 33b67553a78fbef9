import { eitherKey, one, type Route, route } from '../../platform/http/route.ts'
import { SignedIn } from '../users/schema.ts'
import { MessengerWidget, VerifyMessenger, WidgetConfig } from './schema.ts'
import { verifyMessenger, widgetConfig } from './service.ts'

export const messengerRoutes: Route[] = [
  route(
    'POST /auth/messenger/verify',
    {
      summary: 'Sign in with a messenger',
      description:
        'Accepts the data that Telegram gave to the page: the fields of the login widget, or the `initData` of a Mini App. The data is accepted once, within 24 hours of `auth_date`. The first sign-in of an account creates a user and emits `user.created`. Accounts are never linked to an existing user by name or email.',
      callers: eitherKey('auth:write', 'ignored'),
      body: VerifyMessenger,
      reply: one(SignedIn),
      secret: true,
      limit: 'sign_in',
      errors: [
        'messenger_not_configured',
        'messenger_signature_invalid',
        'user_suspended',
        'quota_exceeded',
        'sign_in_refused',
        'sign_in_hook_failed',
      ],
    },
    (deps, { caller, origin, body }) => verifyMessenger(deps, { caller, origin }, body),
  ),
  route(
    'GET /auth/messenger/widget-config',
    {
      summary: 'Get the configuration of the login widget',
      description: "Returns the app's bot, and the URL to send the browser to instead of showing Telegram's widget.",
      callers: eitherKey('auth:write', 'ignored'),
      query: WidgetConfig,
      reply: one(MessengerWidget),
      errors: ['messenger_not_configured'],
    },
    (deps, { caller, origin, query }) => widgetConfig(deps, { caller, origin }, query),
  ),
]

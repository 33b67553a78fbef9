// The API's records under the names that its description gives them.
import type { components } from './api.gen.ts'

type Schemas = components['schemas']

/** An API key, without the key itself. */
export type ApiKey = Schemas['ApiKey']
/** An API key with the key itself in `key`: what creation and rotation answer, and nothing else ever does. */
export type ApiKeyWithKey = Schemas['ApiKeyWithKey']
/** An app of the tenant. */
export type App = Schemas['App']
/** One event on its way to one webhook, with every attempt so far. */
export type Delivery = Schemas['Delivery']
/** One attempt of a delivery; `number` 0 is the first send. */
export type DeliveryAttempt = Schemas['DeliveryAttempt']
/** A delivery with the event as it is sent, in `payload`. */
export type DeliveryWithPayload = Schemas['DeliveryWithPayload']
/** A kind of event, with an example of its `data`. */
export type EventTypeRecord = Schemas['EventType']
/** What a running process says of itself. */
export type Health = Schemas['Health']
/** Long work: `progress` of `total` is done. */
export type Job = Schemas['Job']
/** How many dead letters were deleted. */
export type PurgedDeliveries = Schemas['PurgedDeliveries']
/** A ready process, check by check. */
export type Readiness = Schemas['Readiness']
/** A webhook with its new signing secret; `secret` is null where a rotation's grace was only ended. */
export type RotatedWebhook = Schemas['RotatedWebhook']
/** The tenant that an API key belongs to. */
export type Tenant = Schemas['Tenant']
/** An end user. */
export type User = Schemas['User']
/** A subscription of an endpoint to events, without its secret. */
export type Webhook = Schemas['Webhook']
/** A webhook with its signing secret: what creation answers. */
export type WebhookWithSecret = Schemas['WebhookWithSecret']
/** A converted guest: the guest session, the user that it became, and the user's tokens. */
export type ConvertedGuest = Schemas['ConvertedGuest']
/** How many guest sessions a clean-up ended. */
export type ExpiredGuests = Schemas['ExpiredGuests']
/** A guest session. */
export type Guest = Schemas['Guest']
/** A guest session with its tokens: what creation answers. */
export type GuestWithTokens = Schemas['GuestWithTokens']
/** How many sessions a log-out ended. */
export type LoggedOut = Schemas['LoggedOut']
/** A challenge for signing in; `publicKey` goes to `navigator.credentials.get`. */
export type LoginChallenge = Schemas['LoginChallenge']
/** What the messenger's login widget needs to know. */
export type MessengerWidget = Schemas['MessengerWidget']
/** A challenge of the second factor. */
export type MfaChallenge = Schemas['MfaChallenge']
/** A second factor that is being set up. */
export type MfaSetup = Schemas['MfaSetup']
/** Whether the user has a second factor. */
export type MfaStatus = Schemas['MfaStatus']
/** A verified second factor, with an access token that says so. */
export type MfaVerification = Schemas['MfaVerification']
/** A passkey of a user. */
export type Passkey = Schemas['Passkey']
/** The recovery codes of a new second factor: shown once. */
export type RecoveryCodes = Schemas['RecoveryCodes']
/** A challenge for registering a passkey; `publicKey` goes to `navigator.credentials.create`. */
export type RegistrationChallenge = Schemas['RegistrationChallenge']
/** A session of a user. */
export type Session = Schemas['Session']
/** What every way of signing in answers: the user, and tokens that call for them. */
export type SignedIn = Schemas['SignedIn']
/** A session's tokens. */
export type Tokens = Schemas['Tokens']

// The API's records, named as in its description.
import type { components } from './api.gen.ts'
import type { WebhookEvent } from './webhooks.ts'

type Schemas = components['schemas']

/**
 * The `data` of the events that you publish. Declare your types, and events of them are typed like Halfkey's own:
 * `declare module '@halfkey/sdk' { interface CustomEventData { 'acme.invoice.paid': { total: string } } }`
 */
// biome-ignore lint/suspicious/noEmptyInterface: programs add their types by declaration merging
export interface CustomEventData {}

/** Daily counters of a period. */
export type Analytics = Schemas['Analytics']
/** An API key, without the key itself. */
export type ApiKey = Schemas['ApiKey']
/** An API key with the key itself in `key`: returned by creation and rotation only. */
export type ApiKeyWithKey = Schemas['ApiKeyWithKey']
/** A domain of the tenant, and its DNS records. */
export type CustomDomain = Schemas['CustomDomain']
/** The steps to use an app's passkeys on a custom domain. */
export type DomainPlan = Schemas['DomainPlan']
/** An app of the tenant. */
export type App = Schemas['App']
export type EmailPreview = Schemas['EmailPreview']
export type EmailTemplate = Schemas['EmailTemplate']
export type Logo = Schemas['Logo']
/** An issuer whose tokens an app takes as a sign-in. */
export type Issuer = Schemas['Issuer']
/** A provider with whose accounts users of an app sign in. */
export type Provider = Schemas['Provider']
/** Where to send a browser that signs in with a provider. */
export type ProviderStart = Schemas['ProviderStart']
/** What an external wallet is asked to sign. */
export type ExternalWalletChallenge = Schemas['ExternalWalletChallenge']
/** An account elsewhere that signs a user in. */
export type Identity = Schemas['Identity']
/** A token that says to others who a user is. */
export type IdToken = Schemas['IdToken']
/** Somebody who uses the tenant's dashboard. */
export type Member = Schemas['Member']
export type MemberSignIn = Schemas['MemberSignIn']
/** A member with a link that signs them in once. */
export type MemberWithLink = Schemas['MemberWithLink']
/** Who did what to which record, and from where. */
export type AuditEntry = Schemas['AuditEntry']
/** One event on its way to one webhook, with every attempt so far. */
export type Delivery = Schemas['Delivery']
/** One attempt of a delivery; `number` 0 is the first send. */
export type DeliveryAttempt = Schemas['DeliveryAttempt']
/** A delivery with the body as it is sent, in `payload`, and the headers that describe it. */
export type DeliveryWithPayload = Schemas['DeliveryWithPayload']
/** Attempts that a policy refused, by one rule within one minute. */
export type Denial = Schemas['Denial']
/** A portion of the event feed. */
export type EventPage = Omit<Schemas['EventPage'], 'events'> & { events: WebhookEvent[] }
/** A customer of your app. */
export type Subscriber = Schemas['Subscriber']
/** A short-lived link to a subscriber's portal. */
export type PortalLink = Schemas['PortalLink']
/** How many portal links stopped working. */
export type RevokedPortalLinks = Schemas['RevokedPortalLinks']
/** A type of the events that you publish. */
export type CustomEventType = Schemas['CustomEventType']
/** A kind of event, with an example of its `data`. */
export type EventTypeRecord = Schemas['EventType']
/** Whether a filter matches an event, and why not. */
export type FilterCheck = Schemas['FilterCheck']
/** The state of a running process. */
export type Health = Schemas['Health']
/** A distributed key generation in progress. */
export type KeyGeneration = Schemas['KeyGeneration']
/** The record of a key share, without the share. */
export type KeyShare = Schemas['KeyShare']
/** The shares of one generation of a wallet's key. */
export type KeyShares = Schemas['KeyShares']
/** The result of deleting shares. */
export type DeletedKeyShares = Schemas['DeletedKeyShares']
/** The keys to seal shares to. */
export type MpcConfig = Schemas['MpcConfig']
/** The result of a step of a recovery. */
export type Recovery = Schemas['Recovery']
/** What the proofs and seals of a recovery are bound to. */
export type RecoveryChallenge = Schemas['RecoveryChallenge']
/** Who can sign with a wallet's key. */
export type WalletCustody = Schemas['WalletCustody']
/** An asynchronous job: `progress` of `total` is done. */
export type Job = Schemas['Job']
/** A job that changes many users: its progress, and the users for whom it failed. */
export type UsersBulk = Schemas['UsersBulk']
/** How many dead letters were deleted. */
export type PurgedDeliveries = Schemas['PurgedDeliveries']
/** A ready process, check by check. */
export type Readiness = Schemas['Readiness']
/** A webhook with its new signing secret; `secret` is null if the call only ended the grace period. */
export type RotatedWebhook = Schemas['RotatedWebhook']
/** The tenant that an API key belongs to. */
export type Tenant = Schemas['Tenant']
/** A page of the payment processor on which a plan is bought. */
export type Checkout = Schemas['Checkout']
/** A page of the payment processor on which a plan is changed or ended. */
export type Portal = Schemas['Portal']
/** The current plan, and its usage in the current period. */
export type Usage = Schemas['Usage']
/** An end user. */
export type User = Schemas['User']
/** A subscription of an endpoint to events, without its secret. */
export type Webhook = Schemas['Webhook']
/** The queue or bucket of a webhook, without its secret. */
export type WebhookDestination = NonNullable<Webhook['destination']>
/** A webhook with its signing secret, as creation returns it. */
export type WebhookWithSecret = Schemas['WebhookWithSecret']
/** A converted guest: the guest session, the user that it became, and the user's tokens. */
export type ConvertedGuest = Schemas['ConvertedGuest']
/** How many guest sessions a clean-up ended. */
export type ExpiredGuests = Schemas['ExpiredGuests']
/** A guest session. */
export type Guest = Schemas['Guest']
/** A guest session with its tokens, as creation returns it. */
export type GuestWithTokens = Schemas['GuestWithTokens']
/** How many sessions a log-out ended. */
export type LoggedOut = Schemas['LoggedOut']
/** A challenge for signing in; `publicKey` goes to `navigator.credentials.get`. */
export type LoginChallenge = Schemas['LoginChallenge']
/** A recovery of an account whose passkeys were lost, by its confirmed email and a wait. */
export type EmailRecovery = Schemas['EmailRecovery']
/** Where a recovery stands; with `registration` for `navigator.credentials.create` when its wait is over. */
export type RecoveryStep = Schemas['RecoveryStep']
/** A code that was sent to an email address. */
export type EmailChallenge = Schemas['EmailChallenge']
/** An email that was sent or could not be sent, without what it says. */
export type Email = Schemas['Email']
/** The settings of the messenger's login widget. */
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
/** A session in which a passkey was shown: its new access token. */
export type PasskeyProof = Schemas['PasskeyProof']
/** The recovery codes of a new second factor: shown once. */
export type RecoveryCodes = Schemas['RecoveryCodes']
/** A challenge for registering a passkey; `publicKey` goes to `navigator.credentials.create`. */
export type RegistrationChallenge = Schemas['RegistrationChallenge']
/** A session of a user. */
export type Session = Schemas['Session']
/** The result of every kind of sign-in: the user and their tokens. */
export type SignedIn = Schemas['SignedIn']
/** A session's tokens. */
export type Tokens = Schemas['Tokens']
/** One command for the ledger: create a contract, or exercise a choice of one. */
export type Command = Schemas['Command']
/** A contract that is active. */
export type Contract = Schemas['Contract']
/** A page of contracts. */
export type Contracts = Schemas['Contracts']
/** A delegated session, without its token. */
export type DelegatedSession = Schemas['DelegatedSession']
/** A delegated session with its token, as creation returns it. */
export type DelegatedSessionWithToken = Schemas['DelegatedSessionWithToken']
/** What the faucet issued; `issuer` and `symbol` name the asset in a policy's `spend`. */
export type Dripped = Schemas['Dripped']
/** One thing that a transaction does. */
export type Effect = Schemas['Effect']
/** A payment by x402, with what the seller asked for. */
export type X402Payment = Schemas['X402Payment']
/** What a seller asks for. */
export type X402PaymentRequirements = Schemas['X402PaymentRequirements']
/** What a payer sends. */
export type X402PaymentPayload = Schemas['X402PaymentPayload']
/** Whether a payment was settled. */
export type X402Settlement = Schemas['X402Settlement']
/** What can be settled. */
export type X402Supported = Schemas['X402Supported']
/** Whether a payment could be settled. */
export type X402Verification = Schemas['X402Verification']
/** The result of `execute`: the transaction, the signing request, or the decision of a dry run. */
export type Execution = Schemas['Execution']
/** What a delegated session may do. */
export type Policy = Schemas['Policy']
/** A condition of a policy's rule, or of a query. */
export type PolicyCondition = Schemas['PolicyCondition']
/** The decision of a dry run, and its reason. */
export type PolicyDecision = Schemas['PolicyDecision']
/** A rule of a policy. */
export type PolicyRule = Schemas['PolicyRule']
/** How much of an asset may be spent. */
export type PolicySpend = Schemas['PolicySpend']
/** What a policy asks the wallet's owner for. */
export type PolicyApprovalRule = Schemas['PolicyApprovalRule']
export type PolicyApprovers = Schemas['PolicyApprovers']
/** What a delegated session may still do. */
export type Remaining = Schemas['Remaining']
/** A delegated session as its delegate sees it. */
export type OwnDelegatedSession = Schemas['OwnDelegatedSession']
/** A revoked delegated session, with what was signed before and may still happen. */
export type RevokedDelegatedSession = Schemas['RevokedDelegatedSession']
/** What a kill switch ended, and what may still happen. */
export type RevokedSessions = Schemas['RevokedSessions']
/** What the owner of a `self_custody` wallet is asked to sign: see `readPreparedTransaction`. */
export type SigningRequest = Schemas['SigningRequest']
/** A template that the tenant declared. */
export type Template = Schemas['Template']
/** A transaction of a delegated session. */
export type Transaction = Schemas['Transaction']
/** A transaction as the delegate that asked for it sees it. */
export type OwnTransaction = Schemas['OwnTransaction']
/** A transaction in a list: without its effects. */
export type TransactionSummary = Schemas['TransactionSummary']
/** A wallet. */
export type Wallet = Schemas['Wallet']
/** What all delegated sessions of a wallet together may spend, and what is left of it. */
export type Budget = Schemas['Budget']
/** What a delegated session asks its wallet's owner for. */
export type Approval = Schemas['Approval']
/** The same with everything that the owner has to know to decide. */
export type ApprovalDetails = Schemas['ApprovalDetails']
/** The parties that a wallet's sessions may pay, where their policy says so. */
export type AddressBook = Schemas['AddressBook']
/** An entry of it. */
export type Recipient = Schemas['Recipient']
/** What a policy says, and what in it is probably a mistake. */
export type RehearsedPolicy = Schemas['RehearsedPolicy']
/** What a policy would have said of a wallet's transactions. */
export type Simulation = Schemas['Simulation']
/** What every transaction of a session has to meet. */
export type PolicySessionCondition = Schemas['PolicySessionCondition']
/** The budgets that hold for a wallet. */
export type WalletBudgets = Schemas['WalletBudgets']
/** A message that a user signs to prove that a key is theirs. */
export type WalletChallenge = Schemas['WalletChallenge']
/** What a wallet holds, as of a moment of its ledger. */
export type WalletHoldings = Schemas['WalletHoldings']
/** A transfer of tokens that was offered to or by a wallet. */
export type TransferOffer = Schemas['TransferOffer']
/** A page of them, as of a moment of the wallet's ledger. */
export type TransferOffers = Schemas['TransferOffers']
/** How far a wallet's party is, and what its key has to sign. */
export type WalletOnboarding = Schemas['WalletOnboarding']

// The public API. Everything else is internal.
export type { Fetch } from './attempt.ts'
export { createClient, type HalfkeyClient } from './client.ts'
export { type ErrorCode, type ErrorDetail, HalfkeyError, isHalfkeyError } from './errors.ts'
export type { ClientOptions, RequestOptions } from './http.ts'
export type * from './models.ts'
export type { Body, Query } from './operations.ts'
export type { List, Page } from './paging.ts'
export { type PreparedTransaction, readPreparedTransaction } from './prepared.ts'
export type { EventFeed, EventToPublish, FollowOptions, PublishedEvent } from './resources/events.ts'
export {
  createDelegateKey,
  type DelegateKey,
  type DelegateKeyPair,
  type DelegatePublicKey,
  delegateKeyOf,
  type ProvenCall,
} from './trust/delegate-key.ts'
export type { ServiceTrust } from './trust/service-pin.ts'
export {
  type EventType,
  type VerifyWebhookOptions,
  verifyWebhook,
  verifyWebhookSignature,
  type WebhookEvent,
  type WebhookHeaders,
  type WebhookRejection,
  WebhookVerificationError,
} from './webhooks.ts'

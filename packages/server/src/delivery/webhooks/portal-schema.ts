import { CreateWebhook, Delivery, DeliveryWithPayload, UpdateWebhook, Webhook, WebhookWithSecret } from './schema.ts'

/** What an app keeps with a webhook for itself. Its subscriber neither sees nor sets it. */
const OF_THE_APP = {
  appId: true,
  subscriberId: true,
  includeSubscribers: true,
  metadata: true,
  headers: true,
  oauth: true,
  clientCertificate: true,
  destination: true,
} as const

export const PortalWebhook = Webhook.omit(OF_THE_APP)
export const PortalWebhookWithSecret = WebhookWithSecret.omit(OF_THE_APP)
export const RotatedPortalWebhook = PortalWebhookWithSecret.extend({
  secret: PortalWebhookWithSecret.shape.secret.nullable(),
})
/** What an app chooses for its subscriber, who sees it. */
const CHOSEN_BY_THE_APP = { filter: true, format: true, payload: true } as const

export const CreatePortalWebhook = CreateWebhook.omit({ ...OF_THE_APP, ...CHOSEN_BY_THE_APP }).required({ url: true })
export const UpdatePortalWebhook = UpdateWebhook.omit({
  includeSubscribers: true,
  metadata: true,
  headers: true,
  oauth: true,
  clientCertificate: true,
  destination: true,
  ...CHOSEN_BY_THE_APP,
})

/** Without the app's ordering key. */
export const PortalDelivery = Delivery.omit({ heldByKey: true })
export const PortalDeliveryWithPayload = DeliveryWithPayload.omit({ heldByKey: true })

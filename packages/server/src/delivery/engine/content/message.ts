/** A webhook's setting of what is sent: as Standard Webhooks or in a mode of CloudEvents, with the event's data or without. */
export interface Shape {
  format: 'standard' | 'cloudevents_structured' | 'cloudevents_binary'
  payload: 'full' | 'thin'
}

/** An event, as its row has it. */
export interface Sent {
  tenantId: string
  appId: string | null
  body: string
}

/** A request's body, and the headers that describe it. */
export interface Message {
  headers: Record<string, string>
  body: string
}

interface Envelope {
  id: string
  type: string
  created_at: string
  api_version: string
  subscriber_id?: string
  data: unknown
}

/** A shape as the table `attempts` stores it; null for the usual one. */
export function shapeText({ format, payload }: { [Part in keyof Shape]: Shape[Part] | null }): string | null {
  return format === null || (format === 'standard' && payload === 'full') ? null : `${format} ${payload}`
}

/** The shape that `shapeText` stored. */
export function shapeOf(text: string | null): Shape {
  const [format = 'standard', payload = 'full'] = (text ?? '').split(' ', text === null ? 0 : 2)
  return { format, payload } as Shape
}

/**
 * The attributes of CloudEvents 1.0. `source` is relative, so that it is the same wherever the service is reached and
 * whichever process sends.
 */
function attributesOf({ tenantId, appId }: Sent, event: Envelope): Record<string, string> {
  const tenant = `/tenants/${tenantId}`
  return {
    specversion: '1.0',
    id: event.id,
    source: appId === null ? tenant : `${tenant}/apps/${appId}`,
    type: event.type,
    time: event.created_at,
    tenantid: tenantId,
    ...(appId === null ? {} : { appid: appId }),
    apiversion: event.api_version,
    ...(event.subscriber_id === undefined ? {} : { subscriberid: event.subscriber_id }),
  }
}

/** An attribute as a header: CloudEvents HTTP binding 1.0, section 3.1.3.2. */
function headerValue(value: string): string {
  return value.replace(/[^\x21\x23\x24\x26-\x7e]+/g, encodeURIComponent)
}

/**
 * What is sent of an event. The same shape of the same event is the same bytes each time, and the usual shape is the
 * stored bytes.
 */
export function messageOf({ format, payload }: Shape, sent: Sent): Message {
  const json = { 'content-type': 'application/json' }
  if (format === 'standard' && payload === 'full') return { headers: json, body: sent.body }
  const stored: Envelope = JSON.parse(sent.body)
  const event = payload === 'thin' ? { ...stored, data: {} } : stored
  if (format === 'standard') return { headers: json, body: JSON.stringify(event) }
  const attributes = attributesOf(sent, event)
  if (format === 'cloudevents_structured')
    return {
      headers: { 'content-type': 'application/cloudevents+json' },
      body: JSON.stringify({ ...attributes, datacontenttype: 'application/json', data: event.data }),
    }
  const headers = Object.entries(attributes).map(([name, value]) => [`ce-${name}`, headerValue(value)])
  return { headers: { ...json, ...Object.fromEntries(headers) }, body: JSON.stringify(event.data) }
}

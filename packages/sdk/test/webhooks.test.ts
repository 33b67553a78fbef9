import { createHmac } from 'node:crypto'
import { describe, expect, expectTypeOf, test } from 'vitest'
import {
  verifyWebhook,
  verifyWebhookSignature,
  type WebhookEvent,
  type WebhookHeaders,
  WebhookVerificationError,
} from '../src/webhooks.ts'

// Signatures made by hand: openssl dgst -sha256 -hmac "$secret", and -mac HMAC -macopt hexkey:<decoded secret>.
const SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD0ZXGy3mlHz8='
const OTHER_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo='
const ID = 'evt_01jb2m7x9kq4t8v6w0r3s5y1zq'
const BODY =
  '{"id":"evt_01jb2m7x9kq4t8v6w0r3s5y1zq","type":"user.created","created_at":"2026-11-21T08:30:00.000Z","api_version":"2026-11-01","data":{"userId":"usr_01jb2m7x9kq4t8v6w0r3s5y1za","email":"zoë@example.com","partyId":"usr_01jb2m7x9kq4t8v6w0r3s5y1za::1220f00d"}}'
const TIMESTAMP = 1_795_249_800
const SPECIFIED = {
  'x-service-signature': 'sha256=bdab89d8be6714eec6401b5348908813bfbf823d06d73f4db7a6fa98a3604909',
  'x-service-timestamp': String(TIMESTAMP),
  'x-service-event-id': ID,
}
const STANDARD = {
  'webhook-id': ID,
  'webhook-timestamp': String(TIMESTAMP),
  'webhook-signature': 'v1,ltWt2XlTO67gUHvtxMK1NdOZgYIUvoJA8YSY6HTdhLY=',
}
const BOTH = { ...SPECIFIED, ...STANDARD, 'content-type': 'application/json' }
const at = (seconds: number) => ({ now: () => new Date(seconds * 1000) })
const verify = (headers: WebhookHeaders, body: string | Uint8Array = BODY, secrets: string | string[] = SECRET) =>
  verifyWebhook(body, headers, secrets, at(TIMESTAMP))

const without = (headers: Record<string, string>, ...names: string[]) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)))

const rejection = (given: Promise<unknown>): Promise<unknown> =>
  given.then(
    () => 'accepted',
    (error: unknown) => (error instanceof WebhookVerificationError ? error.reason : error),
  )

/** Signs any body as the server does, to have genuine deliveries of other contents. */
function signed(body: string | Uint8Array, id = ID, timestamp = String(TIMESTAMP), secret = SECRET) {
  const decoded = Buffer.from(secret.replace('whsec_', ''), 'base64')
  return {
    specified: {
      'x-service-signature': `sha256=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`,
      'x-service-timestamp': timestamp,
    },
    standard: {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${createHmac('sha256', decoded).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
    },
  }
}

describe('a genuine delivery is accepted', () => {
  test.each([
    ['by the specification’s signature alone', SPECIFIED],
    ['by the Standard Webhooks signature alone', STANDARD],
    ['by both', BOTH],
    ['by headers in any case', Object.fromEntries(Object.entries(BOTH).map(([k, v]) => [k.toUpperCase(), v]))],
    ['by a Headers object', new Headers(BOTH)],
    ['beside headers that repeat', { ...BOTH, 'set-cookie': ['a', 'b'], forwarded: undefined }],
  ])('%s', async (_, headers) => {
    expect(await verify(headers)).toEqual(JSON.parse(BODY))
  })

  test('as text, as bytes, as a Buffer, and as a part of a larger buffer', async () => {
    const bytes = Buffer.from(BODY)
    const padded = new Uint8Array(bytes.length + 20)
    padded.set(bytes, 7)
    for (const body of [BODY, bytes, new Uint8Array(bytes), padded.subarray(7, 7 + bytes.length)])
      expect((await verify(BOTH, body)).id).toBe(ID)
  })

  test('when one of several secrets is right', async () => {
    expect((await verify(BOTH, BODY, [OTHER_SECRET, SECRET])).id).toBe(ID)
    expect((await verify(SPECIFIED, BODY, [OTHER_SECRET, SECRET])).id).toBe(ID)
  })

  test('when one of several Standard Webhooks signatures is valid, whatever the versions of the others', async () => {
    const other = signed(BODY, ID, String(TIMESTAMP), OTHER_SECRET).standard['webhook-signature']
    const signature = `v1a,YWJj ${other} v2,MzJsNDk4 ${STANDARD['webhook-signature']} v1,short`
    expect((await verify({ ...STANDARD, 'webhook-signature': signature })).id).toBe(ID)
  })

  test('when only one of its two signatures is valid for a known secret, as during a rotation', async () => {
    const old = signed(BODY, ID, String(TIMESTAMP), OTHER_SECRET).specified
    expect((await verify({ ...BOTH, ...old })).id).toBe(ID)
    expect((await verify({ ...BOTH, ...old }, BODY, OTHER_SECRET)).id).toBe(ID)
  })

  test('up to 300 seconds from now in either direction, and not a second more', async () => {
    const by = (seconds: number) => rejection(verifyWebhook(BODY, BOTH, SECRET, at(TIMESTAMP + seconds)))
    expect(await by(300)).toBe('accepted')
    expect(await by(301)).toBe('timestamp_too_old')
    expect(await by(-300)).toBe('accepted')
    expect(await by(-301)).toBe('timestamp_in_future')
  })

  test('within another tolerance', async () => {
    const by = (toleranceSeconds: number) =>
      rejection(verifyWebhook(BODY, BOTH, SECRET, { toleranceSeconds, ...at(TIMESTAMP + 10) }))
    expect(await by(10)).toBe('accepted')
    expect(await by(9)).toBe('timestamp_too_old')
    expect(await by(0)).toBe('timestamp_too_old')
  })

  test('by the system’s clock, unless another clock is given', async () => {
    // Not the samples above: one day, they are of now.
    const stale = signed(BODY, ID, String(Math.floor(Date.now() / 1000) - 3_600))
    expect(await rejection(verifyWebhook(BODY, stale.standard, SECRET))).toMatch(/^timestamp_/)
    const fresh = signed(BODY, ID, String(Math.floor(Date.now() / 1000)))
    expect((await verifyWebhook(BODY, fresh.standard, SECRET)).id).toBe(ID)
  })

  test('with its data typed by its type', async () => {
    const event: WebhookEvent = await verify(BOTH)
    if (event.type === 'user.created') expectTypeOf(event.data.email).toEqualTypeOf<string>()
    if (event.type === 'api_key.created') expectTypeOf(event.data.appId).toEqualTypeOf<string | null>()
    if (event.type === 'tx.completed') expectTypeOf(event.data.operations).toEqualTypeOf<Record<string, unknown>[]>()
    expectTypeOf<WebhookEvent<'wallet.ready'>['data']>().toEqualTypeOf<{ walletId: string; userId: string }>()
  })
})

describe('the published vectors of Standard Webhooks are accepted', () => {
  // Their bodies are no events of ours: they get past the signature and fail after it. Altered, they do not.
  test.each([
    [
      'msg_loFOjxBNrRLzqYUf',
      1_731_705_121,
      '{"event_type":"ping","data":{"success":true}}',
      'whsec_plJ3nmyCDGBKInavdOK15jsl',
      'v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=',
    ],
    [
      'msg_p5jXN8AQM9LWM0D4loKWxJek',
      1_614_265_330,
      '{"test": 2432232314}',
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    ],
  ])('%s', async (id, timestamp, body, secret, signature) => {
    const headers = { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signature }
    expect(await rejection(verifyWebhook(body, headers, secret, at(timestamp)))).toBe('body_malformed')
    expect(await rejection(verifyWebhook(`${body} `, headers, secret, at(timestamp)))).toBe('signature_mismatch')
  })
})

describe('a delivery that was tampered with is rejected', () => {
  const flip = (text: string, from: string, to: string) => {
    expect(text).toContain(from)
    return text.replace(from, to)
  }
  test.each<[string, unknown, Record<string, string | string[] | undefined>, (string | Uint8Array)?]>([
    ['one byte of the body', 'signature_mismatch', BOTH, flip(BODY, 'zoë', 'zoé')],
    ['a body with another order of keys', 'signature_mismatch', BOTH, JSON.stringify({ type: 0, ...JSON.parse(BODY) })],
    ['a space after the body', 'signature_mismatch', BOTH, `${BODY} `],
    ['no body', 'signature_mismatch', BOTH, ''],
    ['a BOM before the body', 'signature_mismatch', BOTH, `\uFEFF${BODY}`],
    ['neither signature', 'signature_missing', without(BOTH, 'x-service-signature', 'webhook-signature')],
    ['no headers', 'signature_missing', {}],
    ['no timestamp', 'timestamp_missing', without(BOTH, 'x-service-timestamp')],
    ['no Standard Webhooks timestamp', 'timestamp_missing', without(BOTH, 'webhook-timestamp')],
    ['no Standard Webhooks id', 'event_id_missing', without(BOTH, 'webhook-id')],
    ['one timestamp renewed', 'timestamps_differ', { ...BOTH, 'x-service-timestamp': String(TIMESTAMP + 1) }],
    ['the timestamp renewed', 'signature_mismatch', { ...SPECIFIED, 'x-service-timestamp': String(TIMESTAMP + 1) }],
    ['the other timestamp renewed', 'signature_mismatch', { ...STANDARD, 'webhook-timestamp': String(TIMESTAMP + 1) }],
    ['an empty timestamp', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': '' }],
    ['a signed number', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': `+${TIMESTAMP}` }],
    ['a fraction', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': `${TIMESTAMP}.5` }],
    ['an exponent', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': '1.795e9' }],
    ['a hexadecimal timestamp', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': '0x6b0155c8' }],
    ['an ISO timestamp', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': '2026-11-21T08:30:00Z' }],
    ['milliseconds', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': String(TIMESTAMP * 1000) }],
    ['two timestamps joined', 'timestamp_malformed', { ...SPECIFIED, 'x-service-timestamp': `${TIMESTAMP}, 1` }],
    ['the same number written longer', 'signature_mismatch', { ...SPECIFIED, 'x-service-timestamp': `0${TIMESTAMP}` }],
    ['another event id', 'event_id_mismatch', { ...BOTH, 'x-service-event-id': 'evt_other' }],
    ['an empty event id', 'event_id_mismatch', { ...BOTH, 'x-service-event-id': '' }],
    ['another Standard Webhooks id', 'signature_mismatch', { ...STANDARD, 'webhook-id': 'evt_other' }],
    ['another id beside a valid signature', 'event_id_mismatch', { ...BOTH, 'webhook-id': 'evt_other' }],
    ['a header array', 'header_repeated', { ...BOTH, 'x-service-signature': [SPECIFIED['x-service-signature']] }],
    ['an array of timestamps', 'header_repeated', { ...BOTH, 'webhook-timestamp': [String(TIMESTAMP), '1'] }],
    ['an array of ids', 'header_repeated', { ...BOTH, 'x-service-event-id': [ID, 'evt_other'] }],
    ['a header in two cases', 'header_repeated', { ...BOTH, 'X-Service-Timestamp': '1' }],
    ['a signature without its prefix', 'signature_malformed', hex((digits) => digits)],
    ['an upper-case signature', 'signature_malformed', hex((digits) => `sha256=${digits.toUpperCase()}`)],
    ['no hexadecimal digits', 'signature_malformed', hex((digits) => `sha256=z${digits.slice(1)}`)],
    ['a signature too short', 'signature_malformed', hex((digits) => `sha256=${digits.slice(2)}`)],
    ['a signature too long', 'signature_malformed', hex((digits) => `sha256=${digits}00`)],
    ['an empty signature', 'signature_malformed', hex(() => 'sha256=')],
    ['another algorithm', 'signature_malformed', hex((digits) => `sha1=${digits}`)],
    ['a line break after it', 'signature_malformed', hex((digits) => `sha256=${digits}\n`)],
    ['another signature', 'signature_mismatch', hex((digits) => `sha256=${digits.slice(1)}0`)],
    ['no base64', 'signature_malformed', { ...STANDARD, 'webhook-signature': `v1,${'*'.repeat(43)}=` }],
    ['no v1', 'signature_malformed', { ...STANDARD, 'webhook-signature': 'v2,bm9ldA==' }],
    ['an empty list', 'signature_malformed', { ...STANDARD, 'webhook-signature': '' }],
  ])('%s', async (_, reason, headers, body = BODY) => {
    expect(await rejection(verify(headers, body))).toBe(reason)
  })

  function hex(change: (digits: string) => string) {
    return { ...SPECIFIED, 'x-service-signature': change(SPECIFIED['x-service-signature'].slice('sha256='.length)) }
  }

  test('the secret of another webhook', async () => {
    expect(await rejection(verify(BOTH, BODY, OTHER_SECRET))).toBe('signature_mismatch')
    expect(await rejection(verify(BOTH, BODY, SECRET.replace('C2', 'C3')))).toBe('signature_mismatch')
    expect(await rejection(verify(SPECIFIED, BODY, SECRET.replace('whsec_', '')))).toBe('signature_mismatch')
    expect(await rejection(verify(STANDARD, BODY, 'not base64!'))).toBe('signature_mismatch')
    expect(await rejection(verify(STANDARD, BODY, 'whsec_'))).toBe('signature_mismatch')
  })

  test('a Headers object with a repeated signature', async () => {
    const headers = new Headers(BOTH)
    headers.append('x-service-signature', SPECIFIED['x-service-signature'])
    expect(await rejection(verify(headers))).toBe('signature_malformed')
  })

  test('the MAC of one scheme used for the other', async () => {
    const mac = Buffer.from(SPECIFIED['x-service-signature'].slice(7), 'hex').toString('base64')
    expect(await rejection(verify({ ...STANDARD, 'webhook-signature': `v1,${mac}` }))).toBe('signature_mismatch')
  })

  test('a signed body that is not an event', async () => {
    const event = JSON.parse(BODY)
    const bodies = [
      'null',
      '[]',
      '"text"',
      'no json',
      JSON.stringify({ ...event, id: 7 }),
      JSON.stringify({ ...event, created_at: undefined }),
      JSON.stringify({ ...event, data: null }),
      JSON.stringify({ ...event, data: [] }),
    ]
    for (const body of bodies)
      expect(await rejection(verify(signed(body).specified, body)), body).toBe('body_malformed')
    const bytes = Buffer.concat([Buffer.from(BODY.slice(0, -2)), Buffer.from([0xff]), Buffer.from('}}')])
    expect(await rejection(verify(signed(bytes).specified, bytes))).toBe('body_malformed')
  })
})

describe('a delivery of CloudEvents', () => {
  const { id, type, created_at, api_version, data } = JSON.parse(BODY)
  const cloudEvent = {
    specversion: '1.0',
    id,
    source: '/tenants/ten_1',
    type,
    time: created_at,
    apiversion: api_version,
  }

  test('in structured mode has the members of every other', async () => {
    const body = JSON.stringify({ ...cloudEvent, data })
    for (const headers of Object.values(signed(body)))
      expect(await verify(headers, body)).toEqual({ id, type, created_at, api_version, data })
    expect(await rejection(verify(signed(body).specified, body.replace('created', 'deleted')))).toBe(
      'signature_mismatch',
    )
    expect(await rejection(verify({ ...signed(body).specified, 'webhook-id': 'evt_other' }, body))).toBe(
      'event_id_mismatch',
    )
  })

  test('in structured mode without an attribute, or of another version, is not an event', async () => {
    for (const change of [
      { time: undefined },
      { type: 7 },
      { data: undefined },
      { specversion: '0.3' },
      { specversion: null },
    ]) {
      const body = JSON.stringify({ ...cloudEvent, data, ...change })
      expect(await rejection(verify(signed(body).specified, body)), body).toBe('body_malformed')
    }
  })

  test('in binary mode is refused with its reason, as its type is not signed; its signature can be verified', async () => {
    const body = JSON.stringify(data)
    const headers = { ...signed(body).standard, 'ce-specversion': '1.0', 'ce-id': id, 'ce-type': type }
    expect(await rejection(verify(headers, body))).toBe('event_in_headers')
    expect(await rejection(verify({ ...BOTH, 'ce-specversion': '1.0' }))).toBe('event_in_headers')
    const verifySignature = (bytes: string) => verifyWebhookSignature(bytes, headers, SECRET, at(TIMESTAMP))
    expect(await verifySignature(body)).toBeUndefined()
    expect(await rejection(verifySignature(`${body} `))).toBe('signature_mismatch')
    expect(await rejection(verify(headers, `${body} `))).toBe('signature_mismatch')
  })
})

describe('a receiver with invalid options throws a TypeError, and accepts nothing', () => {
  test.each<[string, () => Promise<unknown>]>([
    ['an empty secret', () => verify(BOTH, BODY, '')],
    ['no secret', () => verifyWebhook(BODY, BOTH, undefined as never)],
    ['an empty list of secrets', () => verify(BOTH, BODY, [])],
    ['an empty secret in the list', () => verify(BOTH, BODY, [SECRET, ''])],
    [
      'too many secrets',
      () =>
        verify(
          BOTH,
          BODY,
          Array.from({ length: 11 }, () => SECRET),
        ),
    ],
    ['a body that was parsed', () => verify(BOTH, JSON.parse(BODY))],
    ['no body', () => verify(BOTH, null as never)],
    ['a tolerance that is no number', () => verifyWebhook(BODY, BOTH, SECRET, { toleranceSeconds: Number.NaN })],
    ['an endless tolerance', () => verifyWebhook(BODY, BOTH, SECRET, { toleranceSeconds: Number.POSITIVE_INFINITY })],
    ['a negative tolerance', () => verifyWebhook(BODY, BOTH, SECRET, { toleranceSeconds: -1 })],
  ])('%s', async (_, call) => {
    await expect(call()).rejects.toThrow(TypeError)
    await expect(call()).rejects.not.toThrow(SECRET)
  })
})

// The expected signatures were computed by OpenSSL 3.0 and, for Standard Webhooks, by Python's hmac too:
//   printf '%s' "$TIMESTAMP.$BODY" | openssl dgst -sha256 -hmac "$SECRET"
//   printf '%s' "$ID.$TIMESTAMP.$BODY" | openssl dgst -sha256 -mac HMAC -macopt hexkey:$DECODED_HEX -binary | base64
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { SETTINGS } from '../../platform/config.ts'
import { newWebhookSecret } from '../../platform/security/crypto.ts'
import { signatureHeaders, signingKey } from '../../platform/security/webhook-signature.ts'
import { nextAfterFailure } from './retry.ts'

const SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD0ZXGy3mlHz8='
const OLD_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAECAwQFBgc='
const ID = 'evt_01jb2m7x9kq4t8v6w0r3s5y1zq'
const TIMESTAMP = 1_795_249_800
// Not ASCII: what is signed is the UTF-8 of the text.
const BODY =
  '{"id":"evt_01jb2m7x9kq4t8v6w0r3s5y1zq","type":"user.created","created_at":"2026-11-21T08:30:00.000Z","api_version":"2026-11-01","data":{"userId":"usr_01jb2m7x9kq4t8v6w0r3s5y1za","email":"zoë@example.com","partyId":"p"}}'
const HEX = 'e0451a9431ecb00aa3c432fbb6e156c664fd0d85567ac8b23a7c2bdf214bbf77'
const OLD_HEX = '8370686b1d48486b9cf5c6a84f1cfdd2facb83705b355225a04159492b6f08e6'
const STANDARD = 'uhahr2vfWqIdN+4op92iFH/0eWniqdFmFmQFTxvvaBI='
const OLD_STANDARD = 'ldkRa2eORgBCgyFceDnBzypr4IAhS+fuVkDHTG0fbLo='

test('the headers of one secret are those of the specification and of Standard Webhooks', () => {
  expect(signatureHeaders(ID, BODY, signingKey(SECRET), null, TIMESTAMP)).toEqual({
    'content-type': 'application/json',
    'X-Service-Signature': `sha256=${HEX}`,
    'X-Service-Timestamp': '1795249800',
    'X-Service-Event-Id': ID,
    'webhook-id': ID,
    'webhook-timestamp': '1795249800',
    'webhook-signature': `v1,${STANDARD}`,
  })
})

test('during a rotation X-Service-Signature stays with the old secret and webhook-signature carries both', () => {
  const headers = signatureHeaders(ID, BODY, signingKey(SECRET), signingKey(OLD_SECRET), TIMESTAMP)
  expect(headers['X-Service-Signature']).toBe(`sha256=${OLD_HEX}`)
  expect(headers['webhook-signature']).toBe(`v1,${STANDARD} v1,${OLD_STANDARD}`)
})

test('the Standard Webhooks library makes the same signature', () => {
  expect(new Webhook(SECRET).sign(ID, new Date(TIMESTAMP * 1_000), BODY)).toBe(`v1,${STANDARD}`)
})

test('a new secret is whsec_ and the padded standard base64 of 32 bytes', () => {
  for (let n = 0; n < 200; n += 1) {
    const secret = newWebhookSecret()
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(Buffer.from(secret.slice(6), 'base64')).toHaveLength(32)
    expect(`whsec_${Buffer.from(secret.slice(6), 'base64').toString('base64')}`).toBe(secret)
  }
})

const delays = fc.array(fc.integer({ min: 0, max: 7 * 86_400_000 }), { maxLength: 20 })
const random = fc.double({ min: 0, max: 1, noNaN: true })

test('a retry is never early and at most 10 % late', () => {
  fc.assert(
    fc.property(delays, fc.nat(25), random, (delaysMs, retry, chance) => {
      const next = nextAfterFailure(delaysMs, retry, chance)
      const delayMs = delaysMs[retry]
      if (delayMs === undefined) return next.kind === 'dead_letter'
      // The last digit of a double aside.
      return next.kind === 'retry' && next.inMs >= delayMs && next.inMs <= delayMs * 1.1 * (1 + Number.EPSILON)
    }),
    { numRuns: 2_000 },
  )
})

test('every delay is used once, in order, before the dead letter', () => {
  fc.assert(
    fc.property(delays, (delaysMs) => {
      const used: number[] = []
      for (let retry = 0; ; retry += 1) {
        const next = nextAfterFailure(delaysMs, retry, 0)
        if (next.kind === 'dead_letter') break
        used.push(next.inMs)
      }
      expect(used).toEqual(delaysMs)
    }),
  )
})

test('the default is the table of the specification, section 6: 1 min, 5 min, 30 min, 2 h, 24 h', () => {
  const defaults = SETTINGS.webhookRetryDelays.parse(SETTINGS.webhookRetryDelays.default ?? '')
  expect(defaults.map((ms) => ms / 60_000)).toEqual([1, 5, 30, 120, 1_440])
  expect(nextAfterFailure(defaults, 5, 0)).toEqual({ kind: 'dead_letter' })
})

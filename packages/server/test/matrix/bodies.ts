/** Nothing listens there: a delivery fails at once. */
export const NOWHERE = 'http://127.0.0.2:49150/hook'

export const ISSUER = {
  issuer: 'https://login.example.com/',
  jwksUri: 'https://login.example.com/jwks',
  audiences: ['shop'],
}

export const PROVIDER = { preset: 'oidc', issuer: 'https://login.example.com/', clientId: 'shop' }

const TERMS = {
  scheme: 'exact',
  network: 'halfkey:ten_none',
  amount: '1',
  asset: `issuer::1220${'5a'.repeat(32)}/USDX`,
  payTo: `shop::1220${'5a'.repeat(32)}`,
  maxTimeoutSeconds: 60,
  extra: { decimals: 10, method: 'GET', resource: 'https://api.example.com/' },
}
const PAYMENT = {
  x402Version: 2,
  paymentPayload: {
    x402Version: 2,
    accepted: TERMS,
    payload: {
      payer: `ada::1220${'5b'.repeat(32)}`,
      delegatedSessionId: 'dse_01jb2m7x9kq4t8v6w0r3s5y1zg',
      nonce: '5d'.repeat(32),
    },
  },
  paymentRequirements: TERMS,
}

/** Valid bodies where the least that the schema asks for is not enough. */
export const BODIES: Record<string, object> = {
  'POST /auth/email/recovery/cancel': { token: 'of-no-recovery' },
  'POST /api-keys': { name: 'Backend', type: 'secret', scopes: ['api_keys:read'] },
  'POST /guests/:id/convert': { email: 'converted@example.com' },
  'POST /webhooks': { url: NOWHERE, events: ['user.created'] },
  'POST /webhooks/:id/deliveries/bulk': { action: 'retry', deliveryIds: ['dlv_none'] },
  'POST /users/bulk': { action: 'activate', userIds: ['usr_none'] },
  'POST /apps/:id/issuers': { ...ISSUER, issuer: 'https://other.example.com/' },
  'PATCH /apps/:id/issuers/:issuerId': { jit: 'match' },
  'POST /apps/:id/providers': { ...PROVIDER, issuer: 'https://other.example.com/' },
  'PATCH /apps/:id/providers/:providerId': { jit: 'match' },
  'PUT /apps/:id/email-templates/:kind/:language': { subject: 'Your code', text: '{{code}}' },
  'POST /apps/:id/email-templates/preview': {
    kind: 'sign_in',
    language: 'en',
    subject: 'Your code',
    text: '{{code}}',
  },
  'POST /auth/wallet/start': { type: 'ed25519' },
  'POST /auth/wallet/verify': { challengeId: 'chl_none', signature: '00'.repeat(65) },
  'POST /auth/wallet/link': { challengeId: 'chl_none', signature: '00'.repeat(65) },
  'POST /auth/providers/:id/link': { code: 'hk_pl_none', codeVerifier: 'v'.repeat(43) },
  'POST /billing/checkout': { plan: 'pro', successUrl: 'http://localhost:3000/', cancelUrl: 'http://localhost:3000/' },
  'POST /billing/portal': { returnUrl: 'http://localhost:3000/' },
  'POST /webhooks/filters/check': { filter: { path: 'type', eq: 'user.created' }, event: { type: 'user.created' } },
  'POST /delegated-sessions/validate': { policy: { allow: [{ templateId: 'Note:Note' }] } },
  'POST /wallets/:id/onboarding': { signatures: ['00'.repeat(64)] },
  'POST /x402/verify': PAYMENT,
  'POST /x402/settle': PAYMENT,
  'POST /delegated-sessions/:id/execute': { commands: [{ create: { templateId: 'Note:Note' } }] },
}

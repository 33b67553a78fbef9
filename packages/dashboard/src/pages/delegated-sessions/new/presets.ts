import type { Policy } from '@halfkey/sdk'

const HOLDING = 'Token:Holding'

/** A policy to begin with. */
export interface Preset {
  id: string
  label: string
  note: string
  /** `issuer`: the tenant's own, whose test tokens the faucet gives out. */
  policy: (issuer: string) => Policy
}

export const PRESETS: readonly Preset[] = [
  {
    id: 'transfer',
    label: 'Transfer up to 10 USDX a day',
    note: 'To any party, in any 24 hours.',
    policy: (issuer) => ({
      allow: [{ templateId: HOLDING, actions: ['exercise'], choices: ['Transfer'] }],
      spend: [{ asset: { issuer, symbol: 'USDX' }, amount: '10', window: 'rolling_24h' }],
      query: { templateIds: [HOLDING] },
    }),
  },
  {
    id: 'pay-one',
    label: 'Pay one shop',
    note: 'To one party, at most 5 at a time and 50 in total.',
    policy: (issuer) => ({
      allow: [
        {
          templateId: HOLDING,
          actions: ['exercise'],
          choices: ['Transfer'],
          where: [
            { path: 'receiver', op: 'eq', value: '' },
            { path: 'amount', op: 'lte', value: '5' },
          ],
        },
      ],
      spend: [{ asset: { issuer, symbol: 'USDX' }, amount: '50', window: 'lifetime' }],
      query: { templateIds: [HOLDING] },
    }),
  },
  {
    id: 'read-only',
    label: 'Read only',
    note: 'Reads holdings and changes nothing.',
    // A policy has at least one rule that allows; a rule that denies wins over it.
    policy: () => ({
      allow: [{ templateId: HOLDING }],
      deny: [{ templateId: HOLDING }],
      query: { templateIds: [HOLDING] },
    }),
  },
  {
    id: 'blank',
    label: 'Blank',
    note: 'One empty rule.',
    policy: () => ({ allow: [{ templateId: '', actions: ['exercise'] }] }),
  },
]

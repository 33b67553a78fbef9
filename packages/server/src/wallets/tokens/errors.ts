import { type ErrorTable, failures } from '../../platform/http/errors.ts'

export const TOKEN_ERRORS = {
  offer_not_yours: [
    403,
    'Only the receiver can accept or reject a transfer offer, and only the sender can withdraw it.',
  ],
  holdings_unavailable: [409, 'The holdings of this wallet cannot be listed: its ledger is not followed.'],
  offers_unavailable: [
    409,
    "Halfkey cannot list the transfer offers of this wallet: it does not follow the wallet's ledger, or cannot read this wallet.",
  ],
  offer_settled: [409, 'This transfer offer is over. Read its status with GET /wallets/:id/transfer-offers/:offerId.'],
  offer_changed: [
    409,
    'This transfer offer has another contract than the one that you answer. Read it again, and decide about what it says now.',
  ],
} as const satisfies ErrorTable

export const fail = failures(TOKEN_ERRORS)

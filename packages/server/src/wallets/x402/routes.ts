import { one, type Route, route, secretKey } from '../../platform/http/route.ts'
import { PaymentToCheck, Settlement, Supported, Verification } from './schema.ts'
import { settlePayment, supportedPayments, verifyPayment } from './service.ts'

const callers = secretKey('payments:settle')

/** The facilitator of x402 for payments on the embedded ledger. */
export const x402Routes: Route[] = [
  route(
    'GET /x402/supported',
    {
      summary: 'List supported x402 payments',
      description: 'The networks and schemes of x402 that this tenant can settle: `exact` on its embedded ledger.',
      callers,
      reply: one(Supported),
      extension: true,
    },
    async (deps, { caller }) => supportedPayments(deps, caller),
  ),
  route(
    'POST /x402/verify',
    {
      summary: 'Verify an x402 payment',
      description: 'Says whether a payment could be settled now, and why not. Changes nothing.',
      callers,
      body: PaymentToCheck,
      reply: one(Verification),
      reads: true,
      extension: true,
    },
    (deps, { caller, body }) => verifyPayment(deps, caller, body),
  ),
  route(
    'POST /x402/settle',
    {
      summary: 'Settle an x402 payment',
      description:
        'Uses up a payment. Each one is settled once: of several calls with the same payment, one gets `success`. Give out what was paid for only after that. A repeat of one call with the same `Idempotency-Key` returns its first response.',
      callers,
      body: PaymentToCheck,
      reply: one(Settlement),
      extension: true,
    },
    (deps, { caller, origin, body }) => settlePayment(deps, { caller, origin }, body),
  ),
]

import { inSpan } from '../observability/tracing.ts'
import { type Ledger, LedgerError } from './ledger.ts'

/** How long a remote ledger may take for all requests of one step. */
const ANSWER_MS = 10_000

const inTime = <T>(work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const late = () => reject(new Error(`the ledger did not respond within ${ANSWER_MS} ms`))
    const timer = setTimeout(late, ANSWER_MS)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })

/**
 * Asks a ledger. Of one that is a network away it waits for a while and no longer, and what fails is a `LedgerError`: where
 * it is not the ledger's own verdict, it is one that may pass, and that leaves open what happened.
 */
export function callLedger<T>(ledger: Ledger, ask: () => Promise<T>): Promise<T> {
  return inSpan(`ledger ${ledger.name}`, 'client', { 'halfkey.ledger': ledger.name }, () => answerOf(ledger, ask))
}

async function answerOf<T>(ledger: Ledger, ask: () => Promise<T>): Promise<T> {
  if (ledger.transactional) return ask()
  try {
    return await inTime(ask())
  } catch (error) {
    if (error instanceof LedgerError) throw error
    const options = { retryable: true, definite: false }
    const told = new LedgerError('ledger_unavailable', 'The ledger did not respond.', options)
    throw Object.assign(told, { cause: error })
  }
}

import { detached, hourly } from '../../platform/maintenance.ts'
import type { Slice } from '../../platform/slice.ts'
import { TOKEN_ERRORS } from './errors.ts'
import { tokenRoutes } from './routes.ts'
import { deleteArchived, followTokens, type TokenLedger } from './service.ts'

/** What wallets hold on ledgers beyond a network, and what they receive. */
export const tokenSlice: Slice = {
  routes: tokenRoutes,
  errors: TOKEN_ERRORS,
  tasks: (deps) => [
    ...[...deps.ledgers.values()]
      .filter((ledger): ledger is TokenLedger => ledger.tokens !== undefined)
      .map((ledger) => detached(deps, (db) => followTokens({ ...deps, db }, ledger))),
    hourly((db) => deleteArchived(db, deps.now())),
  ],
}

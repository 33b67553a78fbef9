import { auditChains } from '../../insight/audit/service.ts'
import type { ChainSource } from '../../platform/floor/source.ts'
import { ledgerChains } from '../../wallets/ledger/proof/service.ts'

/** All chains of hashes whose ends the floor keeps. */
export const CHAINS: readonly ChainSource[] = [auditChains, ledgerChains]

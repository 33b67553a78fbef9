/** Something is wrong with the settings of a ledger. The message is written for the operator. */
export class LedgerSettingsError extends Error {}

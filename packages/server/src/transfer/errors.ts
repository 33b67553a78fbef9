/** An export or an import cannot be carried out as things are. The message says what to do. */
export class TransferError extends Error {}

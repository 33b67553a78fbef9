import type { LedgerSignature } from '../../../platform/ports/ledger.ts'

/** An Ed25519 signature as the JSON Ledger API takes it. */
export const signatureBody = ({ signature, signedBy }: LedgerSignature) => ({
  format: 'SIGNATURE_FORMAT_CONCAT',
  signature: signature.toString('base64'),
  signedBy,
  signingAlgorithmSpec: 'SIGNING_ALGORITHM_SPEC_ED25519',
})

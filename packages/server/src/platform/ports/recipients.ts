/** Who sees a contract: its signatories, and the observers who are none of them. */
interface Seen {
  signatories: readonly string[]
  observers: readonly string[]
}

/**
 * Who may be paid by one contract that holds a part of an asset and has no owner yet, such as an offer: everybody but the payer who
 * sees it. The issuer of an asset signs whatever holds it, and is not paid by signing. Two contracts are for the issuer all the same: one
 * that it observes without signing, and one that nobody else sees, because an offer to the issuer looks like that.
 */
function recipientsOf({ signatories, observers }: Seen, payer: string, issuer: string): string[] {
  const others = [...signatories, ...observers].filter((party) => party !== payer)
  const isForIssuer = observers.includes(issuer) || others.every((party) => party === issuer)
  return isForIssuer ? others : others.filter((party) => party !== issuer)
}

/**
 * Who may be paid by contracts that hold an asset and have no owner yet, each party once. Each contract is judged by itself, so that
 * nobody hides the recipient of one by making another one that others see.
 */
export const recipientsOfAll = (contracts: readonly Seen[], payer: string, issuer: string): string[] => [
  ...new Set(contracts.flatMap((contract) => recipientsOf(contract, payer, issuer))),
]

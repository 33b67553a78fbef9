/** How to give the worker of each service in this process its next round. */
const rounds = new Set<() => void>()
const BETWEEN_MS = 100
let last = 0

/** Lets `hurry` reach a service. @returns ends that */
export function hurries(round: () => void): () => void {
  rounds.add(round)
  return () => rounds.delete(round)
}

/** What a test waits for is often the work of a worker's next round, which would begin within a second: it begins now. */
export function hurry(): void {
  if (performance.now() - last < BETWEEN_MS) return
  last = performance.now()
  for (const round of rounds) round()
}

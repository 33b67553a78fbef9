/** The child's side of `startHelper`: answers calls until the parent is gone. */
// biome-ignore lint/suspicious/noExplicitAny: each method knows its own argument; both sides stand in this folder
export function serveCalls(methods: Record<string, (argument: any) => unknown>): void {
  process.on('message', async ({ id, method, argument }: { id: number; method: string; argument: unknown }) => {
    try {
      process.send?.({ id, result: await methods[method]?.(argument) })
    } catch (error) {
      process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
  process.on('disconnect', () => process.exit(0))
}

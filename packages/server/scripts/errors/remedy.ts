/** What a page says of an error code beside what the tables know. Markdown. */
export interface Remedy {
  /** What the caller now knows: what was checked, and that nothing was done. */
  means: string
  /** The usual ones, the commonest first. */
  causes: readonly string[]
  /** What to do, in this order. */
  fix: readonly string[]
  /** Whether to send it again: `never` unchanged, `later` unchanged after a wait, `safely` unchanged and at once. */
  retry: 'never' | 'later' | 'safely'
  /** Where it occurs, for what the route tables do not list. */
  where?: string
  /** An element of `details` as it comes; absent where `details` is empty. */
  detail?: { field?: string; code: string; message: string } & Record<string, unknown>
}

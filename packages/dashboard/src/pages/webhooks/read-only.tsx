/** Replaces the actions if the session may not write. */
export function ReadOnly() {
  return (
    <p className="text-sm text-soft">
      Read only: your API key does not have the scope <code className="font-mono text-xs">webhooks:write</code>.
    </p>
  )
}

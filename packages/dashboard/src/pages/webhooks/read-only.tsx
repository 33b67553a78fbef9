/** Replaces the actions if the session may not write. */
export function ReadOnly() {
  return (
    <p className="text-sm text-soft">
      Your API key may only look here: it lacks the scope <code className="font-mono text-xs">webhooks:write</code>.
    </p>
  )
}

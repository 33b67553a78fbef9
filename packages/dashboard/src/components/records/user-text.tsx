/**
 * Text that people chose, such as a name: whatever its length and direction, it takes one line and turns nothing
 * around it. All of it on hover.
 */
export function UserText({ children, className = '' }: { children: string; className?: string }) {
  return (
    <bdi title={children} className={`block truncate ${className}`}>
      {children}
    </bdi>
  )
}

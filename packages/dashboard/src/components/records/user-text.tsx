/**
 * Text that people chose, such as a name: whatever its length and direction, it takes two lines at most and turns
 * nothing around it. All of it on hover.
 */
export function UserText({ children, className = '' }: { children: string; className?: string }) {
  return (
    <bdi title={children} className={`line-clamp-2 [overflow-wrap:anywhere] ${className}`}>
      {children}
    </bdi>
  )
}

import type { ReactNode } from 'react'

export const metadata = { title: 'Halfkey and Next.js' }

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>{children}</body>
    </html>
  )
}

import { createServer } from 'node:net'

/** Fails where a port is taken, before anything is created that a failed start would leave behind. @throws EADDRINUSE */
export function requireFreePort(host: string, port: number): Promise<void> {
  const probe = createServer()
  return new Promise((resolve, reject) => {
    probe.once('error', reject)
    probe.listen(port, host, () => probe.close(() => resolve()))
  })
}

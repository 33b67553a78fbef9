import { type Config, publicUrl } from './config.ts'

const LOOPBACK_ORIGIN = /^https?:\/\/(localhost|127(?:\.\d+){3}|\[::1\])(:\d+)?$/

/**
 * Whether browsers may use an app from this origin: one of its `allowedOrigins`, the service's own, or, in development
 * and where the app names none, any on loopback.
 */
export function isAllowedOrigin(config: Config, allowedOrigins: readonly string[], origin: string): boolean {
  if (allowedOrigins.includes(origin)) return true
  if (origin === new URL(publicUrl(config)).origin) return true
  return config.env === 'development' && allowedOrigins.length === 0 && LOOPBACK_ORIGIN.test(origin)
}

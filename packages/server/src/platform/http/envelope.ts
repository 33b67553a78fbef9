import { type Config, publicUrl } from '../config.ts'
import type { HttpError } from './errors.ts'

/**
 * An error's body (specification, section 7). Each detail says where the error is explained, unless it says so itself.
 */
export function envelope(config: Config, { message, code, details }: HttpError): string {
  const docs = `${publicUrl(config)}/docs/errors/${code}`
  return JSON.stringify({
    error: message,
    code,
    details: details.map((detail) => ({ ...detail, docs: detail.docs ?? docs })),
  })
}

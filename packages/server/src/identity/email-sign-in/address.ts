import { domainToASCII } from 'node:url'
import { invalid } from '../../platform/http/errors.ts'
import { type Email, parseEmail } from '../users/service.ts'

/** Letters, digits and hyphens in labels: what a mail server is found by. */
const HOST = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/

const parts = (email: string): [local: string, host: string] => {
  const at = email.lastIndexOf('@')
  return [email.slice(0, at), email.slice(at + 1)]
}

/**
 * Whose mailbox an address is: the host as mail servers know it, and the local part, of which only A to Z are folded. Emails
 * of users are compared more generously (`foldCase`: straße is strasse, the Kelvin sign is k), and two addresses that count
 * as one there may be two people's mailboxes.
 */
export function mailboxOf(email: string): string {
  const [local, host] = parts(email)
  return `${local.replace(/[A-Z]/g, (letter) => letter.toLowerCase())}@${domainToASCII(host)}`
}

/** An address that an email can be sent to. @throws validation_failed */
export function readAddress(text: string): Email {
  const email = parseEmail(text)
  if (!HOST.test(domainToASCII(parts(email.shown)[1])))
    throw invalid('email', 'Must be an email address, for example ada@example.com.', 'invalid_email')
  return email
}

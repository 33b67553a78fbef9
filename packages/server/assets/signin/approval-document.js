const encoder = new TextEncoder()

/** @typedef {import('../../../sdk/src/models.ts').ApprovalDetails} ApprovalDetails */

/**
 * A JSON value after RFC 8785. Documents and effects hold only texts, whole numbers, lists and objects, so that this is all of it.
 * @param {unknown} value
 * @returns {string}
 */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`
}

/** @param {string} text */
const digest = async (text) => new Uint8Array(await crypto.subtle.digest('SHA-256', encoder.encode(text)))

/** @param {Uint8Array} bytes */
const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')

/** @param {Uint8Array} bytes */
const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

/**
 * The effects as a document commits to them: the place of a new contract stands for its id.
 * @param {ApprovalDetails['effects']} effects
 */
function settled(effects) {
  const made = new Map()
  for (const { type, contractId } of effects) if (type === 'created') made.set(contractId, `new contract ${made.size}`)
  return effects.map((effect) => ({ ...effect, contractId: made.get(effect.contractId) ?? effect.contractId }))
}

/** What this page can show. */
const VERSIONS = ['halfkey/approval/v1', 'halfkey/approval/v2']

/**
 * Whether the passkey will sign what is shown: the challenge is the digest of the document, and the effects are those that the
 * document commits to.
 * @param {ApprovalDetails} approval as `GET /approvals/:id` returns it, with `publicKey`
 */
export async function isWhatIsSigned({ id, document, effects, publicKey }) {
  const challenge = base64url(await digest(`${document.version}\0${canonical(document)}`))
  const effectsHash = hex(await digest(canonical(settled(effects))))
  return (
    VERSIONS.includes(document.version) &&
    challenge === publicKey?.challenge &&
    effectsHash === document.effectsHash &&
    document.transactionId.slice('tx_'.length) === id.slice('apr_'.length)
  )
}

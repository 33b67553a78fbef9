import type { Config } from '../../platform/config.ts'
import { KeyServiceError } from '../../platform/security/key-services/key-service.ts'
import {
  createSigners,
  newRemoteKey,
  readSigners,
  type SignerAddress,
} from '../../platform/security/signers/signers.ts'
import { type Finding, ok, problem } from './finding.ts'

const FIX =
  'halfkey doctor   # again, as the user of the service, once the module, its PIN file and the key in HALFKEY_SIGNERS are right: docs/key-services.md, "Signing in a hardware module"'

async function checkSigner(named: SignerAddress): Promise<Finding> {
  const signers = createSigners([named])
  const name = `signers.${named.use}`
  try {
    const signer = await newRemoteKey(signers, named.use)
    return ok(name, `${named.address} signs, as ${signer?.publicKey.toString('hex')}.`)
  } catch (error) {
    if (!(error instanceof KeyServiceError)) throw error
    return problem(name, `${named.address} does not sign: ${error.message}.`, FIX)
  } finally {
    signers.close()
  }
}

/** Has every key of `HALFKEY_SIGNERS` sign something, one after the other: each opens the module anew, and modules allow few sessions. */
export async function checkSigners(config: Config): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const named of readSigners(config.signers ?? '')) findings.push(await checkSigner(named))
  return findings
}

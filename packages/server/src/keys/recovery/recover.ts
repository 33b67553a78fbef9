import type { Deps } from '../../platform/deps.ts'
import { limitAccount } from '../../platform/http/rate-limits/limits.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { combine } from './combine.ts'
import { confirmReshare } from './confirm.ts'
import { fieldsOf } from './messages.ts'
import { release } from './release.ts'
import { startReshare } from './reshare.ts'
import type { Recover, Recovery } from './schema.ts'

/** Recovers or reshares a key, in the mode of the body. @throws validation_failed, and what the modes throw */
export async function recover(deps: Deps, call: Call, input: Recover): Promise<Recovery> {
  await limitAccount(deps, `recovery ${call.user.id}`)
  const { mode = 'release' } = input
  if (mode === 'release') {
    const fields = ['challengeId', 'proofs', 'recipientPublicKey'] as const
    return release(deps, call, fieldsOf(input, fields, ['generation']))
  }
  if (mode === 'combine') {
    const fields = ['challengeId', 'shares', 'recipientPublicKey'] as const
    return combine(deps, call, fieldsOf(input, fields, ['generation']))
  }
  if (input.reshareId !== undefined)
    return confirmReshare(deps, call, fieldsOf(input, ['reshareId', 'signature', 'proofs'] as const))
  const fields = ['challengeId', 'set', 'participants', 'dealings', 'commitments'] as const
  return startReshare(deps, call, fieldsOf(input, fields))
}

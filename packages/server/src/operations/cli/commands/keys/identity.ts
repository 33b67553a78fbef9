import {
  type IdentityKey,
  IdentityRotationError,
  identityKey,
  rotateIdentityKey,
} from '../../../../platform/security/identity-key.ts'
import { CommandError, defineCommand, withDeps } from '../../command.ts'

const shownKey = ({ pin, publicKey, previous }: IdentityKey) => ({
  pin,
  publicKey: publicKey.toString('hex'),
  previousPin: previous?.pin ?? null,
})

/** `halfkey keys pin` */
export const keysPin = defineCommand({
  name: 'keys pin',
  summary: 'Print the pin by which clients recognise this installation',
  details: `Give it to the SDK: createClient({ …, pin }). A client with a pin sends key shares only to this installation, whoever relays its traffic. The pin is not secret, but it must reach your app by a way that a relay cannot change, such as your source code.`,
  async run(_, context) {
    const data = await withDeps(context, async (deps) => shownKey(await identityKey(deps)))
    const before = data.previousPin === null ? [] : [`Clients with the previous pin still follow: ${data.previousPin}`]
    return { data, lines: [data.pin, ...before] }
  },
})

/** `halfkey keys rotate-identity` */
export const keysRotateIdentity = defineCommand({
  name: 'keys rotate-identity',
  summary: 'Create a new identity key, and with it a new pin',
  details: `Where HALFKEY_SIGNERS names an identity key, it becomes that one. The old key signs the new one and, unless it is in a hardware module, is then destroyed. Clients that pin the old key follow this one step: give them the new pin before you rotate again.`,
  options: (command) =>
    command
      .option(
        '--compromised',
        'do not let the old key sign the new one. Clients refuse until they are given the new pin. Use it if the old key may have been stolen, or is lost with its hardware module',
      )
      .option('--local', 'create a key of this installation, although HALFKEY_SIGNERS names one in a hardware module'),
  async run({ compromised = false, local = false }, context) {
    const data = await withDeps(context, async (deps) => {
      try {
        return shownKey(await rotateIdentityKey(deps, { compromised, local }))
      } catch (error) {
        if (error instanceof IdentityRotationError) throw new CommandError(error.message)
        throw error
      }
    })
    const next = compromised
      ? 'Clients with an earlier pin refuse to send key shares until you give them this one.'
      : `Clients with the previous pin (${data.previousPin}) follow. Give them this one before the next rotation.`
    return { data: { ...data, compromised }, lines: [data.pin, next] }
  },
})

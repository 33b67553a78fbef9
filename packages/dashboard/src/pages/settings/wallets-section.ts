import type { App, Body } from '@halfkey/sdk'
import { type FormField, linesOf } from '../../components/form/form-field.ts'

/** A form that holds the settings of external wallets as they are typed, whatever else it holds. */
export interface WithWallets {
  externalWallets: { ethereum: boolean; ed25519: boolean; signUp: boolean; chainIds: string }
}

/** An app's settings, as the form begins. */
export const walletSettingsOf = ({
  externalWallets: { types, signUp, chainIds },
}: App): WithWallets['externalWallets'] => ({
  ethereum: types.includes('eip4361'),
  ed25519: types.includes('ed25519'),
  signUp,
  chainIds: chainIds.join('\n'),
})

/** What an update of an app sends of them. */
export const walletBodyOf = ({
  ethereum,
  ed25519,
  signUp,
  chainIds,
}: WithWallets['externalWallets']): NonNullable<NonNullable<Body<'/apps/{id}', 'patch'>>['externalWallets']> => ({
  types: [...(ethereum ? (['eip4361'] as const) : []), ...(ed25519 ? (['ed25519'] as const) : [])],
  signUp,
  chainIds: linesOf(chainIds).map(Number),
})

const wrongChain = (text: string) => linesOf(text).findIndex((line) => !/^[1-9]\d{0,14}$/.test(line))

/** The section of an app's settings. */
export const WALLETS_SECTION: { title: string; description: string; fields: FormField<WithWallets>[] } = {
  title: 'External wallets',
  description: 'Users sign in with a wallet that they have, such as MetaMask.',
  fields: [
    {
      name: 'externalWallets.ethereum',
      label: 'Ethereum accounts can sign in',
      kind: 'switch',
      wireName: 'externalWallets.types',
      help: 'The hosted sign-in page then has the button “Continue with a wallet”.',
    },
    {
      name: 'externalWallets.ed25519',
      label: 'Ed25519 keys can sign in',
      kind: 'switch',
      help: 'On your own pages and servers. The hosted sign-in page has no button for them.',
    },
    {
      name: 'externalWallets.signUp',
      label: 'New users can sign up with a wallet',
      kind: 'switch',
      help: 'If this is off, only keys that a user has linked can sign in.',
    },
    {
      name: 'externalWallets.chainIds',
      label: 'Chains',
      kind: 'lines',
      shown: ({ externalWallets }) => externalWallets.ethereum,
      help: 'One chain id per line, the default first. 1 is Ethereum. An account is the same user on all chains.',
      required: 'Enter at least one chain id.',
      validate: (text) => {
        const line = wrongChain(text)
        return line < 0 ? undefined : `Line ${line + 1}: must be a number such as 1 or 8453.`
      },
    },
  ],
}

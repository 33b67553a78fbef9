import { secp256k1 } from '@noble/curves/secp256k1.js'
import { expect, test } from 'vitest'
import { addressOf } from '../../src/identity/external-wallets/address.ts'
import { personalHash } from '../../src/identity/external-wallets/proof.ts'
import { openSignIn, type Person, signOut } from './person.ts'
import { useSignIn } from './stage.ts'

const stage = useSignIn()
const APP = { externalWallets: { types: ['eip4361'], chainIds: [1, 8453] } }

/** Somebody's account, whose key the page never sees. */
function newAccount() {
  const secret = secp256k1.utils.randomSecretKey()
  return {
    address: addressOf(secp256k1.getPublicKey(secret, false)).toLowerCase(),
    /** What `personal_sign` returns for a text in hexadecimal. */
    sign(hex: string): string {
      const bytes = Buffer.from(hex.slice(2), 'hex')
      const made = secp256k1.sign(personalHash(bytes), secret, { prehash: false, format: 'recovered' })
      return `0x${Buffer.from([...made.subarray(1), 27 + (made[0] as number)]).toString('hex')}`
    },
  }
}

interface InjectedWallet {
  name: string
  /** Announces itself after EIP-6963; otherwise it takes `window.ethereum`. */
  announces: boolean
  account: ReturnType<typeof newAccount>
  /** The code of the error with which it answers a request for a signature (EIP-1193). */
  refuses?: number
}

/** Installs wallets in somebody's browser, as extensions do: before any script of the page. @returns the texts that they signed */
async function install({ context }: Person, wallets: InjectedWallet[]): Promise<string[]> {
  const signed: string[] = []
  await context.exposeFunction('signWith', (index: number, hex: string) => {
    signed.push(Buffer.from(hex.slice(2), 'hex').toString())
    return wallets[index]?.account.sign(hex)
  })
  const told = wallets.map(({ name, announces, account, refuses = 0 }) => ({
    name,
    announces,
    refuses,
    address: account.address,
  }))
  await context.addInitScript(`
    for (const [index, { name, announces, address, refuses }] of ${JSON.stringify(told)}.entries()) {
      const provider = {
        async request({ method, params }) {
          if (method === 'eth_requestAccounts') return [address]
          if (method === 'eth_chainId') return '0x2105'
          if (method !== 'personal_sign' || params[1] !== address) throw Object.assign(new Error('no'), { code: -32601 })
          if (refuses !== 0) throw Object.assign(new Error('<b>their words</b>'), { code: refuses })
          return globalThis.signWith(index, params[0])
        },
      }
      if (!announces) globalThis.ethereum = provider
      else
        addEventListener('eip6963:requestProvider', () => dispatchEvent(new CustomEvent('eip6963:announceProvider', {
          detail: { info: { uuid: String(index), name, icon: 'data:,', rdns: 'com.example' }, provider },
        })))
    }`)
  return signed
}

/** Somebody at the page of an app with wallets, who has these in their browser. */
async function arriveWith(wallets: InjectedWallet[], app: object = APP) {
  const arrival = await stage.arrive({ app })
  const signed = await install(arrival.ada, wallets)
  await openSignIn(arrival.ada, stage.service, arrival.tenant)
  return { ...arrival, signed }
}

const continueWith = (page: Person['page'], name = 'a wallet') =>
  page.getByRole('button', { name: `Continue with ${name}`, exact: true }).click()

test('somebody new signs in with the wallet of their browser, adds a passkey, and comes back as the same user', async () => {
  const account = newAccount()
  const { ada, page, tenant, signed } = await arriveWith([{ name: 'Fox', announces: false, account }])
  await ada.look('wallet-first')
  await continueWith(page)
  await page.getByRole('heading', { name: 'Sign in faster next time' }).waitFor()
  expect(signed).toHaveLength(1)
  const [text] = signed as [string]
  // The wallet compares the first line with the page that asks.
  expect(text.split('\n')[0]).toBe(`${new URL(page.url()).origin} wants you to sign in with your Ethereum account:`)
  expect(text.toLowerCase()).toContain(account.address)
  expect(text).toContain('Chain ID: 8453')
  await page.getByRole('button', { name: 'Create a passkey' }).click()
  await page.getByRole('heading', { name: 'Your account' }).waitFor()
  await signOut(ada)
  await continueWith(page)
  await page.getByRole('heading', { name: 'Your account' }).waitFor()
  const users = (await tenant.get('/users')).body
  expect(users.total).toBe(1)
  const identities = (await tenant.get(`/users/${users.data[0].id}/identities`)).body.data
  expect(identities).toMatchObject([
    { provider: 'eip4361', subject: expect.stringMatching(new RegExp(account.address, 'i')) },
  ])
})

test('of several wallets that announce themselves one is chosen, by a name that stays text', async () => {
  const [one, other] = [newAccount(), newAccount()]
  const hostile = '<img src=x onerror=alert(1)>'
  const { ada, page, tenant } = await arriveWith([
    { name: 'Fox', announces: true, account: one },
    { name: hostile, announces: true, account: other },
  ])
  await continueWith(page)
  await page.getByRole('button', { name: 'Continue with Fox' }).waitFor()
  expect(await page.locator('img').count()).toBe(0)
  await ada.look('wallet-choice')
  await continueWith(page, hostile)
  await page.getByRole('heading', { name: 'Sign in faster next time' }).waitFor()
  const [user] = (await tenant.get('/users')).body.data
  const [identity] = (await tenant.get(`/users/${user.id}/identities`)).body.data
  expect(identity.subject.toLowerCase()).toBe(other.address)
})

test('without a wallet the page says so, and the other ways stay', async () => {
  const { ada, page } = await arriveWith([])
  await continueWith(page)
  await page.getByText('No wallet was found in this browser.').waitFor()
  await ada.look('wallet-none')
  await page.getByRole('button', { name: 'Sign in another way' }).click()
  await page.getByRole('button', { name: 'Continue as guest' }).waitFor()
})

test('who does not sign is not signed in, and a wallet’s own words are not shown', async () => {
  const { ada, page, tenant } = await arriveWith([
    { name: 'Fox', announces: false, account: newAccount(), refuses: 4001 },
  ])
  await continueWith(page)
  await page.getByText('Nothing was changed.').waitFor()
  expect(await page.getByText('their words').count()).toBe(0)
  await ada.look('wallet-declined')
  expect((await tenant.get('/users')).body.total).toBe(0)
})

test('a wallet that signs with another account signs nobody in', async () => {
  const [shown, used] = [newAccount(), newAccount()]
  const account = { ...shown, sign: used.sign }
  const { page, tenant } = await arriveWith([{ name: 'Fox', announces: false, account }])
  await continueWith(page)
  await page.getByText('The signature of your wallet could not be verified.').waitFor()
  expect((await tenant.get('/users')).body.total).toBe(0)
})

test('an app without external wallets has no button for them', async () => {
  const { page } = await arriveWith([{ name: 'Fox', announces: false, account: newAccount() }], {})
  await page.getByRole('button', { name: 'Continue as guest' }).waitFor()
  expect(await page.getByRole('button', { name: 'Continue with a wallet' }).count()).toBe(0)
})

test('an app that refuses the sign-in says so in words of the page', async () => {
  const account = newAccount()
  const { page, tenant } = await arriveWith([{ name: 'Fox', announces: false, account }])
  // There is nothing that decides: the hook fails, and the sign-in with it.
  const signInHook = { url: `${stage.service.url}/decides`, secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}` }
  const set = await tenant.patch(`/apps/${tenant.appId}`, { signInHook })
  expect(set.status, set.text).toBe(200)
  await continueWith(page)
  await page.getByText('You cannot sign in right now.').waitFor()
  expect((await tenant.get('/users')).body.total).toBe(0)
})

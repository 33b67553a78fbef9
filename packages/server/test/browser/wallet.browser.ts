// The hosted page of a user's wallet: a shared wallet on Canton is made, signs for its party, and pays.
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Model } from '../../../keys/test/canton/model.ts'
import { BOB, ISSUER, pay, settingsFile, settingsOf } from '../canton/canton.fixture.ts'
import { COIN } from '../canton/daml.ts'
import { addBelow, EVE, forgedOnboarding, forgedTransaction, madeBy, NEW_ID } from '../canton/forged.ts'
import { PARTICIPANT, SimulatedParticipant } from '../canton/participant.ts'
import type { Tenant } from '../harness/harness.ts'
import { newPerson, originOf, type Person, signUp } from './person.ts'
import { SMOKE, useStage } from './stage.ts'
import { click, create, heading, onboarded } from './wallet-page.ts'

const participant = new SimulatedParticipant()
const stage = useStage(async () => {
  await participant.start()
  return { HALFKEY_LEDGERS: `canton:${settingsFile(settingsOf(participant))}` }
})
beforeAll(() => {
  participant.now = stage.service.deps.now
})
afterEach(() => participant.heal())
afterAll(() => participant.stop())

interface Arrived {
  ada: Person
  page: Page
  tenant: Tenant
  /** What a link asks to pay. */
  open(payment?: object): Promise<void>
}

/** Somebody who has signed up at the page of their wallet, and has none. */
async function arrive(): Promise<Arrived> {
  const tenant = await stage.service.newTenant()
  await tenant.patch(`/apps/${tenant.appId}`, { name: 'Acme Wallet' })
  const ada = stage.host(await newPerson(stage.browser, { prf: true }))
  const { page } = ada
  const open = async (payment?: object) => {
    const link = payment === undefined ? '' : `#pay=${Buffer.from(JSON.stringify(payment)).toString('base64url')}`
    await page.goto('about:blank')
    await page.goto(`${originOf(stage.service)}/wallet?app=${tenant.appId}${link}`)
  }
  await open()
  await signUp(ada, { email: 'ada@example.com' })
  await page.getByRole('heading', { name: 'Create your wallet' }).waitFor()
  return { ada, page, tenant, open }
}

const coinFor = (owner: string) => participant.mint(COIN, { issuer: ISSUER, owner, symbol: 'CC', amount: '10' })
const payment = (contractId: string) => ({ command: pay(contractId, '3'), assets: [{ issuer: ISSUER, symbol: 'CC' }] })
const amountsOf = (owner: string) => participant.active(COIN, { owner }).map(({ fields }) => fields.amount)

test('a shared wallet is made, its key signs for its party, and pays on a later visit', SMOKE, async () => {
  const arrived = await arrive()
  const { ada, page, open } = arrived
  await ada.look('wallet-none')
  const sheet = await create(page)
  expect(JSON.parse(sheet)).toMatchObject({ version: 'halfkey/held-share/v1', holder: 'recovery' })
  await heading(page, 'Sign for your wallet')
  await page.getByText(`The participant ${PARTICIPANT} hosts it`).waitFor()
  await ada.look('wallet-party')
  expect(participant.parties.size).toBe(0)
  await click(page, 'Sign with your passkey')
  await heading(page, 'Your wallet is ready')
  const [party = ''] = participant.parties.keys()
  await page.getByText(party).waitFor()
  await ada.look('wallet-ready')

  await open(payment(coinFor(party)))
  await click(page, 'Sign in with a passkey')
  await heading(page, 'Pay from your wallet?')
  await ada.look('wallet-pay')
  await click(page, 'See what you would sign')
  await heading(page, 'Sign this?')
  await page.getByText(`receiver: "${BOB}", amount: "3`).waitFor()
  await ada.look('wallet-sign')
  await click(page, 'Sign this')
  await heading(page, 'Paid')
  expect(amountsOf(party)).toEqual(['7.0000000000'])
  expect(amountsOf(BOB)).toContain('3')
})

const RESPONSES: [string, boolean][] = [
  ['that was paid', true],
  ['that never arrived', false],
]
test.each(RESPONSES)(
  'a payment %s, and whose response is cut off, is not offered again, and is sent again only as it was signed',
  async (_, isReceived) => {
    const arrived = await arrive()
    const { ada, page, open } = arrived
    const { party } = await onboarded(page)
    const sent: string[] = []
    await page.route('**/signin/api/delegated-sessions/*/execute', async (route) => {
      const body = route.request().postData() as string
      if (!('signature' in JSON.parse(body))) return route.continue()
      sent.push(body)
      expect(page.url()).not.toContain('#pay=')
      if (sent.length > 2) return route.continue()
      if (isReceived) await route.fetch()
      await route.abort('connectionreset')
    })
    await open(payment(coinFor(party)))
    await click(page, 'Sign in with a passkey')
    await click(page, 'See what you would sign')
    await click(page, 'Sign this')
    await heading(page, 'It is not known whether this was paid')
    await page.getByRole('alert').filter({ hasText: 'No connection to the server' }).waitFor()
    await ada.look('wallet-unknown')
    expect(amountsOf(party)).toEqual([isReceived ? '7.0000000000' : '10'])
    await click(page, 'Send the same payment again')
    await page.getByRole('alert').filter({ hasText: 'No connection to the server' }).waitFor()
    expect(sent).toHaveLength(2)
    await click(page, 'Send the same payment again')
    await page.getByRole('heading', { name: 'Paid', exact: true }).waitFor()
    expect(amountsOf(party)).toEqual(['7.0000000000'])
    expect(sent.map((body) => body === sent[0])).toEqual([true, true, true])
    await page.reload()
    await click(page, 'Sign in with a passkey')
    await heading(page, 'Your wallet is ready')
  },
)

test('a person who refuses, or writes nothing down, has signed nothing', async () => {
  const arrived = await arrive()
  const { page, tenant, open } = arrived
  await click(page, 'Create your wallet')
  await heading(page, 'Keep your recovery share')
  await click(page, 'Cancel')
  await page.getByText('Nothing was changed.').waitFor()
  expect((await tenant.get('/wallets')).body.data).toEqual([])
  const { party } = await onboarded(page)
  await open(payment(coinFor(party)))
  await click(page, 'Sign in with a passkey')
  await click(page, 'See what you would sign')
  await heading(page, 'Sign this?')
  await click(page, 'Refuse')
  await heading(page, 'Nothing was paid')
  expect(amountsOf(party)).toEqual(['10'])
  for (const link of ['#pay=e30', '#pay=%%%', `#pay=${'A'.repeat(30_000)}`]) {
    await page.goto('about:blank')
    await page.goto(`${originOf(stage.service)}/wallet?app=${tenant.appId}${link}`)
    await click(page, 'Sign in with a passkey')
    await heading(page, 'This link does not work')
  }
})

test('on a new device the recovery share brings the wallet back, and it pays; the lost recovery share is worth nothing', async () => {
  const arrived = await arrive()
  const { ada, page, tenant, open } = arrived
  const { party, sheet } = await onboarded(page)
  // A passkey on the new device, added while the old one could still sign in.
  await page.goto(`${originOf(stage.service)}/signin?app=${tenant.appId}`)
  await click(page, 'Sign in with a passkey')
  await page.getByRole('button', { name: 'Add a passkey' }).waitFor()
  await ada.takeAnotherDevice()
  await click(page, 'Add a passkey')
  await page.getByText('Passkey added').waitFor()

  const coin = coinFor(party)
  await open(payment(coin))
  await click(page, 'Sign in with a passkey')
  await click(page, 'See what you would sign')
  await page.getByRole('status').filter({ hasText: 'No passkey was used' }).waitFor()
  const bringBack = async (text: string) => {
    await click(page, 'I lost the device that kept my share')
    await page.getByLabel('Recovery share').fill(text)
    await click(page, 'Get your wallet back')
  }
  await bringBack('not a share')
  await page.getByText('This is not a recovery share.').waitFor()
  await ada.look('wallet-recovery')
  await click(page, 'Back')
  await bringBack(sheet)
  await heading(page, 'Keep your recovery share')
  await click(page, 'I have kept it')
  await click(page, 'See what you would sign')
  await click(page, 'Sign this')
  await heading(page, 'Paid')
  expect(amountsOf(party)).toEqual(['7.0000000000'])

  await open(payment(coin))
  await click(page, 'Sign in with a passkey')
  await bringBack(sheet)
  await page.getByRole('alert').filter({ hasText: /./ }).waitFor()
  expect(await page.getByRole('heading', { name: 'Keep your recovery share' }).count()).toBe(0)
})

const TOPOLOGIES: [string, Parameters<typeof forgedOnboarding>[2], RegExp][] = [
  ['another key', null, /is another one/],
  [
    'a second participant',
    ({ participants }) => participants.push({ participant_uid: EVE, permission: 2 }),
    /2 participants would host the party/,
  ],
]
test.each(TOPOLOGIES)(
  'a ledger that has %s signed for is refused in the browser, in words',
  async (what, lie, words) => {
    const arrived = await arrive()
    const { ada, page } = arrived
    await page.route('**/signin/api/wallets/*/onboarding', async (route) => {
      const answer = await route.fetch()
      const body = await answer.json()
      const { data } = body
      if (data.state === 'signature_required')
        forgedOnboarding(data, what === 'another key' ? Buffer.alloc(32, 7) : await keyOf(arrived), lie)
      await route.fulfill({ response: answer, json: body })
    })
    const before = participant.parties.size
    await create(page)
    await heading(page, 'Not signed')
    await page.getByText(words).waitFor()
    await ada.look(`wallet-refused-${what.replaceAll(' ', '-')}`)
    expect(await page.getByRole('button', { name: 'Sign with your passkey' }).count()).toBe(0)
    expect(participant.parties.size).toBe(before)
  },
)

/** The public key of somebody's wallet. */
async function keyOf({ tenant }: Arrived): Promise<Buffer> {
  return Buffer.from((await tenant.get('/wallets')).body.data[0].publicKey, 'hex')
}

const TRANSACTIONS: [string, (request: Request, model: Model) => void, RegExp][] = [
  [
    'a node more',
    (request, model) =>
      forgedTransaction(request, model, (other) => {
        const create = structuredClone({ ...madeBy(other), contract_id: NEW_ID })
        create.template_id.entity_name = 'Debt'
        addBelow(other, { create })
      }),
    /also creates a contract of .*Debt/,
  ],
  [
    'another hash',
    (request) => {
      request.digest = 'ab'.repeat(32)
    },
    /another hash/,
  ],
]
interface Request {
  preparedTransaction: string
  digest: string
}
test.each(TRANSACTIONS)(
  'a ledger that prepares a transaction with %s is refused in the browser, in words',
  async (_, lie, words) => {
    const arrived = await arrive()
    const { page, open } = arrived
    const { party } = await onboarded(page)
    let model: Model | undefined
    participant.lie = (prepared) => {
      model = structuredClone(prepared)
    }
    await page.route('**/signin/api/delegated-sessions/*/execute', async (route) => {
      const answer = await route.fetch()
      const body = await answer.json()
      lie(body.data.signingRequest, model as Model)
      await route.fulfill({ response: answer, json: body })
    })
    await open(payment(coinFor(party)))
    await click(page, 'Sign in with a passkey')
    await click(page, 'See what you would sign')
    await heading(page, 'Not signed')
    await page.getByText(words).waitFor()
    expect(amountsOf(party)).toEqual(['10'])
  },
)

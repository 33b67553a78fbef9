import type { WalletCustody } from '@halfkey/sdk'
import { KeyRound, LifeBuoy, type LucideIcon, Server, TriangleAlert, UserRound } from 'lucide-react'
import type { ReactNode } from 'react'
import { Badge, type Tone } from './badge.tsx'

type Share = WalletCustody['shares'][number]
type Signer = WalletCustody['canSign'][number]

const HOLDERS: Record<Share['holder'], string> = {
  server: 'Halfkey',
  device: 'The user’s device',
  recovery: 'Recovery',
}

const OPENED_BY: Record<Share['openableBy'], string> = {
  service: 'Stored by Halfkey, which can open it.',
  user: 'Stored by Halfkey, encrypted. Only the user’s passkeys can open it.',
  password: 'Stored by Halfkey, encrypted with a password. Anyone who knows or guesses the password can open it.',
  holder: 'Not stored by Halfkey. Its holder keeps it.',
}

const together = (custody: WalletCustody) => custody.canSign.some(({ who }) => who === 'service_and_user')

/** Who can sign, in one sentence. */
function verdictOf(custody: WalletCustody): string {
  const { serviceAlone, userAlone } = custody
  if (serviceAlone && userAlone) return 'Halfkey and the user can each sign alone.'
  if (serviceAlone) return 'Halfkey can sign alone.'
  if (userAlone && custody.custody === 'shared') return 'The user can sign without Halfkey. Halfkey cannot sign alone.'
  if (userAlone) return 'Only the user can sign.'
  if (together(custody)) return 'Neither can sign alone: a signature needs both Halfkey and the user.'
  return 'No signer is recorded.'
}

interface Standing {
  tone: Tone
  text: string
}

const ALONE: Standing = { tone: 'accent', text: 'Can sign alone' }
const TOGETHER: Standing = { tone: 'good', text: 'Only together' }
const NOT: Standing = { tone: 'neutral', text: 'Cannot sign' }

function Tile({
  icon: Icon,
  name,
  standing,
  children,
}: {
  icon: LucideIcon
  name: string
  standing: Standing
  children: ReactNode
}) {
  return (
    <li className="flex min-w-0 flex-col gap-2 rounded-control border p-4">
      <span className="flex flex-wrap items-center justify-between gap-2">
        <span className="flex items-center gap-2 font-medium">
          <Icon aria-hidden className="size-4.5 text-soft" />
          {name}
        </span>
        <Badge tone={standing.tone}>{standing.text}</Badge>
      </span>
      <div className="flex flex-col gap-1 text-sm text-soft">{children}</div>
    </li>
  )
}

/** The reasons that apply to one signer. */
function Reasons({ signers, none }: { signers: Signer[]; none: string }) {
  if (signers.length === 0) return <p>{none}</p>
  return signers.map(({ who, how }) => <p key={`${who} ${how}`}>{how}</p>)
}

function recoveryStanding(share: Share | undefined): Standing {
  if (share === undefined) return { tone: 'neutral', text: 'No share' }
  return share.stored ? { tone: 'good', text: 'Share stored' } : { tone: 'neutral', text: 'Share stored elsewhere' }
}

function Parties({ custody }: { custody: WalletCustody }) {
  const { canSign, shares, serviceAlone, userAlone } = custody
  const both = canSign.filter(({ who }) => who === 'service_and_user')
  const standingOf = (alone: boolean) => (alone ? ALONE : both.length > 0 ? TOGETHER : NOT)
  const recovery = shares.find(({ holder }) => holder === 'recovery')
  return (
    <ul className="grid gap-3 md:grid-cols-3">
      <Tile icon={Server} name="Halfkey" standing={standingOf(serviceAlone)}>
        <Reasons
          signers={[...canSign.filter(({ who }) => who === 'service'), ...both]}
          none="Halfkey has no key share that it can sign with."
        />
      </Tile>
      <Tile icon={UserRound} name="The user" standing={standingOf(userAlone)}>
        <Reasons
          signers={[...canSign.filter(({ who }) => who === 'user'), ...both]}
          none="The user does not sign. Halfkey signs for them."
        />
      </Tile>
      <Tile icon={LifeBuoy} name="Recovery" standing={recoveryStanding(recovery)}>
        <p>{recovery === undefined ? 'This key has no recovery share.' : OPENED_BY[recovery.openableBy]}</p>
        {recovery === undefined ? null : <p>With one more share, it can sign or restore the key.</p>}
      </Tile>
    </ul>
  )
}

function Shares({ custody }: { custody: WalletCustody }) {
  const { shares, threshold, total, generation, generationsDestroyed } = custody
  if (shares.length === 0) return null
  return (
    <div>
      <h3 className="text-sm font-medium">
        Key shares: any {threshold} of {total} can sign
      </h3>
      <ol className="mt-2 grid gap-3 md:grid-cols-3">
        {shares.map((share) => (
          <li
            key={share.index}
            className="flex min-w-0 items-start gap-3 rounded-control bg-raised/70 px-4 py-3 text-sm"
          >
            <KeyRound aria-hidden className="mt-0.5 size-4 flex-none text-soft" />
            <span className="min-w-0">
              <span className="block font-medium">
                Share {share.index} · {HOLDERS[share.holder]}
                {share.status === 'active' ? null : ` · ${share.status}`}
              </span>
              <span className="block text-soft">{OPENED_BY[share.openableBy]}</span>
            </span>
          </li>
        ))}
      </ol>
      <p className="mt-2 text-sm text-soft">
        Generation {generation}.{' '}
        {generationsDestroyed === 0
          ? ''
          : ` The shares of ${generationsDestroyed} earlier ${generationsDestroyed === 1 ? 'generation' : 'generations'} were deleted.`}
      </p>
    </div>
  )
}

/** The ways in, strongest first as the service lists them. Somebody else controls an issuer and a mailbox. */
function SignIns({ custody: { canSignIn } }: { custody: WalletCustody }) {
  if (canSignIn.length === 0) return null
  return (
    <div>
      <h3 className="text-sm font-medium">Who could sign in as the user</h3>
      <ul className="mt-2 flex flex-col gap-2 text-sm">
        {canSignIn.map(({ who, issuer, how, reachesKey }) => (
          <li key={`${who} ${issuer ?? ''}`} className="flex flex-wrap items-center gap-2">
            <span className="min-w-0 text-soft [overflow-wrap:anywhere]">{how}</span>
            <Badge tone={reachesKey && who === 'issuer' ? 'warn' : 'neutral'}>
              {reachesKey ? 'reaches the key' : 'not enough alone'}
            </Badge>
          </li>
        ))}
      </ul>
    </div>
  )
}

/** Who can sign with a wallet's key today, drawn: the service, the user, recovery, and the shares they have. */
export function CustodyXray({ custody }: { custody: WalletCustody }) {
  const exported = custody.canSign.filter(({ who }) => who === 'anyone_with_export')
  return (
    <div className="flex flex-col gap-4">
      <p className="text-lg font-medium">{verdictOf(custody)}</p>
      {custody.status === 'frozen' ? (
        <p className="rounded-control bg-warn-wash px-3 py-2 text-sm text-warn">
          The wallet is frozen. Halfkey does not sign with it until it is unfrozen.
        </p>
      ) : null}
      {exported.map(({ how }) => (
        <p key={how} className="flex gap-2 rounded-control bg-warn-wash px-3 py-2 text-sm text-warn">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 flex-none" />
          {how}
        </p>
      ))}
      <Parties custody={custody} />
      <Shares custody={custody} />
      <SignIns custody={custody} />
    </div>
  )
}

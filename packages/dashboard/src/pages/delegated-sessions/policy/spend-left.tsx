import { Progress } from '@base-ui/react/progress'
import type { Remaining } from '@halfkey/sdk'
import { Party } from '../../../components/records/party.tsx'
import { WINDOWS } from './policy-words.ts'

type SpendLeft = Remaining['spend'][number]

/** How much of a cap is spent, in percent. Enough for a bar: amounts may exceed the precision of a number. */
function spentPercent({ spent, limit }: Pick<SpendLeft, 'spent' | 'limit'>): number {
  const of = Number(limit)
  return of === 0 ? 100 : Math.min(100, (Number(spent) / of) * 100)
}

function Cap({ cap, name }: { cap: SpendLeft; name: string }) {
  const { asset, limit, spent, remaining, window } = cap
  const title = `${asset.symbol}${window === null ? '' : `, ${WINDOWS[window]}`}`
  const percent = limit === null ? 0 : spentPercent(cap)
  return (
    <li className="flex flex-col gap-1.5">
      <Progress.Root value={percent} aria-valuetext={limit === null ? 'No limit' : `${spent} of ${limit} spent`}>
        <div className="flex flex-wrap justify-between gap-x-4 text-sm">
          <Progress.Label className="font-medium [overflow-wrap:anywhere]">{title}</Progress.Label>
          <span className="tabular-nums">
            {limit === null ? (
              'No limit'
            ) : (
              <>
                <span className="font-medium">{remaining}</span> <span className="text-soft">left of {limit}</span>
              </>
            )}
          </span>
        </div>
        {limit === null ? null : (
          <Progress.Track className="mt-1.5 h-2 overflow-hidden rounded-full bg-raised">
            <Progress.Indicator
              className={`h-full rounded-full transition-[width] ${percent >= 100 ? 'bg-warn' : 'bg-accent'}`}
            />
          </Progress.Track>
        )}
      </Progress.Root>
      <p className="flex flex-wrap items-center gap-x-2 text-sm text-soft">
        <code className="font-mono text-xs">{name}</code> issued by <Party id={asset.issuer} />
      </p>
    </li>
  )
}

/** What a session may still spend: a bar for each cap. */
export function SpendLeftList({ spend }: { spend: readonly SpendLeft[] }) {
  if (spend.length === 0) return <p className="text-sm text-soft">This session cannot spend anything.</p>
  return (
    <ul className="grid gap-x-10 gap-y-5 lg:grid-cols-2">
      {spend.map((cap, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a cap is known by its place in the policy, which never changes
        <Cap key={index} cap={cap} name={`spend[${index}]`} />
      ))}
    </ul>
  )
}

import { Progress } from '@base-ui/react/progress'
import type { Budget, WalletBudgets } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { Party } from '../../components/records/party.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { LIVE } from '../../query-client.ts'
import { BUDGET_WINDOWS } from '../delegated-sessions/policy/policy-words.ts'

const SET_BY: Record<Budget['setBy'], string> = {
  owner: 'The owner',
  server: 'Your server',
  app: 'A setting of the app',
}

/** How much of a budget is spent, in percent. Enough for a bar: amounts may exceed the precision of a number. */
function spentPercent({ spent, amount }: Budget): number {
  const of = Number(amount)
  return of === 0 ? 100 : Math.min(100, (Number(spent) / of) * 100)
}

function SpentBar({ budget }: { budget: Budget }) {
  const { spent, amount, asset } = budget
  const percent = spentPercent(budget)
  return (
    <Progress.Root
      value={percent}
      aria-label={`Spent ${asset.symbol}`}
      aria-valuetext={`${spent} of ${amount} spent`}
      className="w-full md:w-44"
    >
      <span className="tabular-nums">
        <span className="font-medium">{spent}</span> <span className="text-soft">of {amount}</span>
      </span>
      <Progress.Track className="mt-1 h-2 overflow-hidden rounded-full bg-raised">
        <Progress.Indicator className={`h-full rounded-full ${percent >= 100 ? 'bg-warn' : 'bg-accent'}`} />
      </Progress.Track>
    </Progress.Root>
  )
}

/** What a budget counts: an asset, and perhaps only what one party receives or one template costs. */
function Counted({ budget }: { budget: Budget }) {
  const { asset, recipient, templateId, window } = budget
  return (
    <div className="min-w-0 whitespace-normal">
      <p className="font-medium [overflow-wrap:anywhere]">
        <bdi>{asset.symbol}</bdi>, {BUDGET_WINDOWS[window]}
      </p>
      <p className="flex flex-wrap items-center gap-x-1.5 text-soft">
        issued by <Party id={asset.issuer} />
      </p>
      {recipient === null ? null : (
        <p className="flex flex-wrap items-center gap-x-1.5 text-soft">
          received by <Party id={recipient} />
        </p>
      )}
      {templateId === null ? null : (
        <p className="text-soft [overflow-wrap:anywhere]">
          by commands on <code className="font-mono text-xs">{templateId}</code>
        </p>
      )}
    </div>
  )
}

const HEAD = 'h-10 px-3 font-medium whitespace-nowrap text-soft first:pl-5 last:pr-5'
const CELL = 'align-top md:px-3 md:py-3 md:first:pl-5 md:last:pr-5'

function BudgetTable({ budgets }: { budgets: readonly Budget[] }) {
  return (
    // On a narrow screen the table is styled as blocks: without these roles assistive technology would not see a table.
    <table role="table" aria-label="Budgets" className="w-full text-left text-sm max-md:block">
      <thead role="rowgroup" className="border-b max-md:sr-only">
        <tr role="row">
          {['Budget', 'Spent', 'Left', 'Opens again', 'Set by'].map((header) => (
            <th role="columnheader" key={header} className={HEAD}>
              {header}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup" className="divide-y max-md:block">
        {budgets.map((budget, index) => (
          <tr
            role="row"
            // biome-ignore lint/suspicious/noArrayIndexKey: a budget has no id, and its place is its name in refusals
            key={index}
            className="max-md:flex max-md:flex-col max-md:gap-2 max-md:px-5 max-md:py-4"
          >
            <td role="cell" className={`${CELL} md:w-full md:max-w-0`}>
              <Counted budget={budget} />
            </td>
            <td role="cell" className={CELL}>
              <SpentBar budget={budget} />
            </td>
            <td role="cell" className={`${CELL} whitespace-nowrap tabular-nums`}>
              <span className="text-soft md:hidden">Left: </span>
              {budget.remaining}
            </td>
            <td role="cell" className={`${CELL} whitespace-nowrap`}>
              <span className="text-soft md:hidden">Opens again: </span>
              {budget.resetsAt === null ? '–' : <RelativeTime at={budget.resetsAt} />}
            </td>
            <td role="cell" className={`${CELL} whitespace-nowrap`}>
              <span className="text-soft md:hidden">Set by: </span>
              {SET_BY[budget.setBy]}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Shown({ budgets, appBudgets }: WalletBudgets) {
  const all = [...budgets, ...appBudgets]
  if (all.length > 0) return <BudgetTable budgets={all} />
  return (
    <EmptyState title="No budgets">
      Each delegated session is limited by the caps of its policy. A budget limits all sessions of the wallet together.
      The owner sets one with their own access token, your server with <code>PUT /wallets/:id/budgets</code>.
    </EmptyState>
  )
}

/** What all delegated sessions of a wallet together may spend, and what is spent. */
export function BudgetsCard({ walletId }: { walletId: string }) {
  const query = useQuery({
    queryKey: ['wallets', walletId, 'budgets'],
    queryFn: ({ signal }) => api.wallets.budgets(walletId, { signal }),
    ...LIVE,
  })
  return (
    <Card flush title="Budgets" description="What all delegated sessions of this wallet together may spend.">
      <Loaded query={query}>{(budgets) => <Shown {...budgets} />}</Loaded>
    </Card>
  )
}

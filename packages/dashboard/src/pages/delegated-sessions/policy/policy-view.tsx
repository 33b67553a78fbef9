import type { Policy, PolicyRule } from '@halfkey/sdk'
import { Ban, Check, Clock, Coins, Eye, Hand, type LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'
import { shortParty } from '../../../components/records/party.tsx'
import {
  actWords,
  askWords,
  capital,
  conditionWords,
  otherwiseWords,
  sessionConditionWords,
  spendWords,
  whoWords,
} from './policy-words.ts'

function Part({
  icon: Icon,
  tone,
  title,
  children,
}: {
  icon: LucideIcon
  tone: string
  title: string
  children: ReactNode
}) {
  return (
    <section className="flex gap-3">
      <Icon aria-hidden className={`mt-0.5 size-5 flex-none ${tone}`} />
      <div className="min-w-0 flex-1">
        <h3 className="font-medium">{title}</h3>
        <div className="mt-1 text-sm text-soft [overflow-wrap:anywhere]">{children}</div>
      </div>
    </section>
  )
}

function Rules({ rules }: { rules: readonly PolicyRule[] }) {
  return (
    <ul className="flex flex-col gap-2">
      {rules.map((rule, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a rule is known by its place
        <li key={index}>
          <span className="text-ink">{capital(actWords(rule))}</span>
          {rule.where?.length ? (
            <ul className="mt-0.5 ml-4 list-disc">
              {rule.where.map((condition, place) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: as above
                <li key={place}>if {conditionWords(condition)}</li>
              ))}
            </ul>
          ) : null}
        </li>
      ))}
    </ul>
  )
}

/** A complete description of a policy, including what it does not allow. */
export function PolicyInWords({ policy }: { policy: Policy }) {
  const { allow, deny = [], spend = [], requireApproval = [], conditions = [], query } = policy
  return (
    <div className="flex flex-col gap-5">
      <Part icon={Check} tone="text-good" title="Allowed">
        {allow.length === 0 ? 'Nothing. A policy needs at least one rule.' : <Rules rules={allow} />}
      </Part>
      {deny.length === 0 ? null : (
        <Part icon={Ban} tone="text-danger" title="Denied">
          <Rules rules={deny} />
        </Part>
      )}
      <Part icon={Coins} tone="text-soft" title="Can spend">
        {spend.length === 0 ? (
          'Nothing.'
        ) : (
          <ul className="flex flex-col gap-1">
            {spend.map((each, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: as above
              <li key={index}>
                <span className="text-ink">{capital(spendWords(each))}</span>, issued by{' '}
                <span title={each.asset.issuer}>{shortParty(each.asset.issuer) || '…'}</span>
              </li>
            ))}
            <li>No other assets.</li>
          </ul>
        )}
      </Part>
      {conditions.length === 0 ? null : (
        <Part icon={Clock} tone="text-soft" title="Only under these conditions">
          <ul className="flex flex-col gap-1">
            {conditions.map((each, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: as above
              <li key={index}>
                <span className="text-ink">{capital(sessionConditionWords(each))}</span>; {otherwiseWords(each)}
              </li>
            ))}
          </ul>
        </Part>
      )}
      {requireApproval.length === 0 ? null : (
        <Part icon={Hand} tone="text-warn" title="Asks for approval">
          <ul className="flex flex-col gap-1">
            {requireApproval.map((each, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: as above
              <li key={index}>
                <span className="text-ink">{capital(askWords(each))}</span>
                {each.approvers === undefined ? null : `; ${whoWords(each.approvers)} are asked`}
              </li>
            ))}
          </ul>
        </Part>
      )}
      <Part icon={Eye} tone="text-soft" title="Can read">
        {query?.templateIds.length ? (
          <>
            Contracts of the wallet with the template <span className="text-ink">{query.templateIds.join(', ')}</span>
          </>
        ) : (
          'No contracts.'
        )}
      </Part>
    </div>
  )
}

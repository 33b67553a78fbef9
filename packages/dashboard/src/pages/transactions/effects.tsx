import type { Effect } from '@halfkey/sdk'
import { CircleMinus, CirclePlus, type LucideIcon, Play } from 'lucide-react'
import { CopyableId } from '../../components/records/copy.tsx'
import { Party, shortParty } from '../../components/records/party.tsx'
import { effectWords } from './operation-words.ts'

const LOOKS: Record<Effect['type'], { icon: LucideIcon; tone: string }> = {
  exercised: { icon: Play, tone: 'bg-accent-wash text-accent' },
  created: { icon: CirclePlus, tone: 'bg-good-wash text-good' },
  archived: { icon: CircleMinus, tone: 'bg-raised text-soft' },
}

/** Scrolls long text of a contract within a few lines. */
const LONG_CHARS = 500

function Long({ text }: { text: string }) {
  return (
    <section
      aria-label="Long text"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
      tabIndex={0}
      className="max-h-40 overflow-y-auto rounded-control bg-raised/60 px-3 py-2"
    >
      {text}
    </section>
  )
}

/** Values with structure, which some ledgers have, are shown as JSON. */
const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

function Value({ value }: { value: unknown }) {
  const values = (Array.isArray(value) ? value : [value]).map(textOf)
  if (values.length === 0) return <span className="text-soft">none</span>
  return (
    <ul className="min-w-0">
      {values.map((each, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: texts of a record that never changes, perhaps the same twice
        <li key={index} dir="auto" className="min-w-0 [overflow-wrap:anywhere]">
          {shortParty(each) !== each ? <Party id={each} /> : each.length > LONG_CHARS ? <Long text={each} /> : each}
        </li>
      ))}
    </ul>
  )
}

function EffectItem({ effect, number }: { effect: Effect; number: number }) {
  const { icon: Icon, tone } = LOOKS[effect.type]
  const given = Object.entries(effect.arguments)
  return (
    <li className="flex gap-4 px-5 py-4">
      <span className={`flex size-8 flex-none items-center justify-center rounded-full ${tone}`}>
        <Icon aria-hidden className="size-4" />
      </span>
      <div className="min-w-0 flex-1">
        <p className="font-medium [overflow-wrap:anywhere]">
          <span className="sr-only">{number}. </span>
          {effectWords(effect)}
        </p>
        {given.length === 0 ? null : (
          <dl className="mt-2 grid gap-x-4 gap-y-1 text-sm sm:grid-cols-[8rem_1fr]">
            {given.map(([name, value]) => (
              <div key={name} className="contents">
                <dt className="text-soft [overflow-wrap:anywhere]">{name}</dt>
                <dd className="min-w-0">
                  <Value value={value} />
                </dd>
              </div>
            ))}
          </dl>
        )}
        <p className="mt-2 text-sm text-soft">
          Contract <CopyableId id={effect.contractId} what="contract id" />
        </p>
      </div>
    </li>
  )
}

/** What a transaction does, step by step; under the command that each step follows from where there are several. */
export function Effects({ effects }: { effects: readonly Effect[] }) {
  const commands = [...new Set(effects.map(({ command }) => command))]
  return (
    <div className="divide-y">
      {commands.map((command) => (
        <section key={command} aria-label={`Command ${command + 1}`}>
          {commands.length === 1 ? null : (
            <h3 className="bg-raised/60 px-5 py-2 text-sm font-medium text-soft">Command {command + 1}</h3>
          )}
          <ol className="divide-y">
            {effects
              .filter((effect) => effect.command === command)
              .map((effect, index) => (
                <EffectItem key={`${effect.type} ${effect.contractId}`} effect={effect} number={index + 1} />
              ))}
          </ol>
        </section>
      ))}
    </div>
  )
}

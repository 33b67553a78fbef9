import { SwitchField, TextField } from '../../../components/controls/field.tsx'
import { Select } from '../../../components/controls/select.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { type Draft, UNITS } from './draft.ts'
import { useProblem, useProblems } from './field-problems.ts'

const UNIT_OPTIONS = UNITS.map((value) => ({ value, label: value }))

function Lifetime({ draft, onChange }: { draft: Draft; onChange: (draft: Draft) => void }) {
  const isWrong = useProblem('expiresInSeconds') !== undefined
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-start gap-2">
      <TextField
        label="Lifetime"
        value={draft.lifetime}
        onChange={(lifetime) => onChange({ ...draft, lifetime })}
        inputMode="numeric"
        hint={isWrong ? undefined : 'From 1 minute to 30 days.'}
        // The server's message is about seconds, but the field has a unit.
        error={isWrong ? 'Must be from 1 minute to 30 days.' : undefined}
        autoComplete="off"
        className="text-right tabular-nums"
      />
      <div className="pt-6.5">
        <Select
          label="Unit of the lifetime"
          value={draft.unit}
          options={UNIT_OPTIONS}
          onChange={(unit) => onChange({ ...draft, unit })}
          className="min-h-10.5"
        />
      </div>
    </div>
  )
}

/** A session's name, lifetime, number of uses, and whether a server may use it. */
export function LimitsCard({
  draft,
  ownKey,
  onChange,
}: {
  draft: Draft
  ownKey: boolean
  onChange: (draft: Draft) => void
}) {
  const problems = useProblems()
  return (
    <Card title="Name and limits">
      <div className="flex flex-col gap-4">
        <TextField
          label="Name (optional)"
          value={draft.name}
          onChange={(name) => onChange({ ...draft, name })}
          placeholder="Shopping agent"
          error={problems.name}
          autoComplete="off"
        />
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <Lifetime draft={draft} onChange={onChange} />
          <TextField
            label="Uses (optional)"
            value={draft.maxUses}
            onChange={(maxUses) => onChange({ ...draft, maxUses })}
            inputMode="numeric"
            placeholder="No limit"
            hint="Number of transactions. Refused requests and dry runs do not count."
            error={problems.maxUses}
            autoComplete="off"
            className="text-right tabular-nums"
          />
        </div>
        <SwitchField
          label="Servers can act without the token"
          hint={
            ownKey
              ? 'Not available: the owner holds the key of this wallet, so the token is always needed.'
              : 'Applies to any secret key with the scope delegated_sessions:execute.'
          }
          checked={draft.serverExecute && !ownKey}
          disabled={ownKey}
          onChange={(serverExecute) => onChange({ ...draft, serverExecute })}
          error={problems.serverExecute}
        />
      </div>
    </Card>
  )
}

import type { PolicySpend } from '@halfkey/sdk'
import { Plus } from 'lucide-react'
import { Button } from '../../../components/controls/button.tsx'
import { ErrorText, SwitchField, TextField } from '../../../components/controls/field.tsx'
import { Select } from '../../../components/controls/select.tsx'
import { WINDOWS } from '../policy/policy-words.ts'
import { useProblem, useProblems } from './field-problems.ts'
import { replaced, without } from './lists.ts'
import { PartFrame } from './part-frame.tsx'

const WINDOW_OPTIONS = Object.entries(WINDOWS).map(([value, label]) => ({
  value: value as NonNullable<PolicySpend['window']>,
  label: label.charAt(0).toUpperCase() + label.slice(1),
}))

function limited(spend: PolicySpend, isUnlimited: boolean): PolicySpend {
  const { asset } = spend
  return isUnlimited ? { asset, unlimited: true } : { asset, amount: '', window: 'lifetime' }
}

function Limit({
  spend,
  name,
  at,
  onChange,
}: {
  spend: PolicySpend
  name: string
  at: string
  onChange: (spend: PolicySpend) => void
}) {
  const { amount, window } = spend
  return (
    <>
      <TextField
        label="At most"
        value={amount ?? ''}
        onChange={(next) => onChange({ ...spend, amount: next })}
        placeholder="10"
        inputMode="decimal"
        error={useProblem(`${at}.amount`)}
        autoComplete="off"
        className="text-right tabular-nums"
      />
      <div className="flex min-w-0 flex-col gap-1.5">
        <span aria-hidden className="text-sm font-medium">
          Window
        </span>
        <Select
          label={`Window of ${name}`}
          value={window ?? 'lifetime'}
          options={WINDOW_OPTIONS}
          onChange={(next) => onChange({ ...spend, window: next })}
          className="min-h-10.5"
        />
      </div>
    </>
  )
}

function SpendEditor({
  spend,
  index,
  onChange,
  onRemove,
}: {
  spend: PolicySpend
  index: number
  onChange: (spend: PolicySpend) => void
  onRemove: () => void
}) {
  const at = `policy.spend.${index}`
  const name = `cap ${index + 1}`
  const { asset, unlimited } = spend
  const problems = useProblems()
  return (
    <PartFrame name={name} onRemove={onRemove}>
      <div className="grid items-start gap-4 sm:grid-cols-3">
        <TextField
          label="Symbol"
          value={asset.symbol}
          onChange={(symbol) => onChange({ ...spend, asset: { ...asset, symbol } })}
          placeholder="USDX"
          error={problems[`${at}.asset.symbol`]}
          autoComplete="off"
        />
        {unlimited === true ? null : <Limit spend={spend} name={name} at={at} onChange={onChange} />}
      </div>
      <TextField
        label="Issuer"
        value={asset.issuer}
        onChange={(issuer) => onChange({ ...spend, asset: { ...asset, issuer } })}
        hint="The party that issues the asset. The default is the issuer of the test faucet."
        placeholder="issuer::1220…"
        error={problems[`${at}.asset.issuer`]}
        autoComplete="off"
        spellCheck={false}
        className="font-mono text-[0.8125rem]"
      />
      <SwitchField label="No limit" checked={unlimited === true} onChange={(next) => onChange(limited(spend, next))} />
      <ErrorText>{problems[at]}</ErrorText>
    </PartFrame>
  )
}

/** The caps of a policy: an asset without one must not be spent at all. */
export function SpendList({
  spend,
  issuer,
  onChange,
}: {
  spend: readonly PolicySpend[]
  /** Of a new cap's asset. */
  issuer: string
  onChange: (spend: PolicySpend[]) => void
}) {
  return (
    <div className="flex flex-col gap-4">
      {spend.map((each, index) => (
        <SpendEditor
          // biome-ignore lint/suspicious/noArrayIndexKey: a cap is known by its place, as it is to the server
          key={index}
          spend={each}
          index={index}
          onChange={(next) => onChange(replaced(spend, index, next))}
          onRemove={() => onChange(without(spend, index))}
        />
      ))}
      <div>
        <Button
          onClick={() => onChange([...spend, { asset: { issuer, symbol: 'USDX' }, amount: '', window: 'lifetime' }])}
        >
          <Plus aria-hidden className="size-4" />
          Add a cap
        </Button>
      </div>
    </div>
  )
}

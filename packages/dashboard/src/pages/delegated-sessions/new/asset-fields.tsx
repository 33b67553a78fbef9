import type { PolicySpend } from '@halfkey/sdk'
import { TextField } from '../../../components/controls/field.tsx'
import { useProblems } from './field-problems.ts'

type Asset = PolicySpend['asset']

/** The symbol and the issuer of an asset. `at` is its path in the policy. */
export function AssetFields({ asset, at, onChange }: { asset: Asset; at: string; onChange: (asset: Asset) => void }) {
  const problems = useProblems()
  return (
    <>
      <TextField
        label="Symbol"
        value={asset.symbol}
        onChange={(symbol) => onChange({ ...asset, symbol })}
        placeholder="USDX"
        error={problems[`${at}.symbol`]}
        autoComplete="off"
      />
      <TextField
        label="Issuer"
        value={asset.issuer}
        onChange={(issuer) => onChange({ ...asset, issuer })}
        placeholder="issuer::1220…"
        error={problems[`${at}.issuer`]}
        autoComplete="off"
        spellCheck={false}
        className="font-mono text-[0.8125rem]"
      />
    </>
  )
}

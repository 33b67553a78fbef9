import { Progress } from '@base-ui/react/progress'

/** The progress of a long task; `value` is null until it is known. */
export function ProgressBar({ label, value, max }: { label: string; value: number | null; max: number }) {
  return (
    <Progress.Root value={value} max={Math.max(1, max)} className="flex flex-col gap-1.5">
      <div className="flex justify-between gap-4 text-sm">
        <Progress.Label>{label}</Progress.Label>
        <span className="tabular-nums text-soft">{value === null ? '…' : `${value} of ${max}`}</span>
      </div>
      <Progress.Track className="h-2 overflow-hidden rounded-full bg-raised">
        <Progress.Indicator className="h-full rounded-full bg-accent transition-[width] data-indeterminate:w-1/3 data-indeterminate:animate-pulse" />
      </Progress.Track>
    </Progress.Root>
  )
}

import { CopyButton } from './copy.tsx'

const PARTY = /^(.{1,120})::1220([0-9a-f]{64})$/

/** A party's name and the ends of its fingerprint; anything else as it is. */
export function shortParty(text: string): string {
  const [, name, fingerprint] = PARTY.exec(text) ?? []
  if (name === undefined || fingerprint === undefined) return text
  return `${name}::1220${fingerprint.slice(0, 4)}…${fingerprint.slice(-4)}`
}

/** A party, shortened; in full on hover and by its copy button. */
export function Party({ id }: { id: string }) {
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <code title={id} className="min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">
        {shortParty(id)}
      </code>
      <CopyButton text={id} what="party" />
    </span>
  )
}

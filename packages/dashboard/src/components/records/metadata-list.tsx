import { useState } from 'react'

const CHARS_SHOWN = 240

/** A long text, cut until its reader opens it. */
function LongText({ text }: { text: string }) {
  const [all, setAll] = useState(false)
  if (text.length <= CHARS_SHOWN) return <bdi>{text}</bdi>
  return (
    <>
      <bdi>{all ? text : `${text.slice(0, CHARS_SHOWN)}…`}</bdi>{' '}
      <button
        type="button"
        aria-expanded={all}
        onClick={() => setAll(!all)}
        className="font-medium text-accent hover:underline max-md:min-h-11"
      >
        {all ? 'Show less' : `Show all ${text.length.toLocaleString('en')} characters`}
      </button>
    </>
  )
}

/** Metadata to read. */
export function MetadataList({ metadata }: { metadata: Record<string, string> }) {
  const entries = Object.entries(metadata)
  if (entries.length === 0) return <p className="text-sm text-soft">None.</p>
  return (
    <dl className="grid gap-x-6 gap-y-2 text-sm sm:grid-cols-[minmax(8rem,auto)_1fr]">
      {entries.map(([key, value]) => (
        <div key={key} className="min-w-0 sm:contents">
          <dt className="text-soft [overflow-wrap:anywhere]">
            <bdi>{key}</bdi>
          </dt>
          <dd className="min-w-0 [overflow-wrap:anywhere]">
            <LongText text={value} />
          </dd>
        </div>
      ))}
    </dl>
  )
}

import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { Button, IconButton } from '../controls/button.tsx'

const SHOWN_MS = 1_500

function useCopy(text: string): [boolean, () => void] {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return undefined
    const timer = setTimeout(() => setCopied(false), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [copied])
  return [copied, () => void navigator.clipboard.writeText(text).then(() => setCopied(true))]
}

/** Copies a text to the clipboard. `what` completes its name: "Copy …". */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, copy] = useCopy(text)
  return (
    <IconButton label={copied ? 'Copied' : `Copy ${what}`} onClick={copy} className="size-7! max-md:size-9!">
      {copied ? <Check aria-hidden className="size-3.5 text-good" /> : <Copy aria-hidden className="size-3.5" />}
    </IconButton>
  )
}

/** An id, in full, with its copy button. */
export function CopyableId({ id, what = 'id' }: { id: string; what?: string }) {
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <code className="min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">{id}</code>
      <CopyButton text={id} what={what} />
    </span>
  )
}

/** Text to paste somewhere: a command, a record. `label` says what it is. */
export function CodeBlock({ text, label }: { text: string; label: string }) {
  return (
    <figure className="group relative rounded-control border bg-code text-left">
      <figcaption className="sr-only">{label}</figcaption>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
        tabIndex={0}
        className="overflow-x-auto p-3 pr-12 font-mono text-[0.8125rem] leading-relaxed"
      >
        <code>{text}</code>
      </pre>
      <div className="absolute top-1.5 right-1.5 rounded-control bg-code">
        <CopyButton text={text} what={label} />
      </div>
    </figure>
  )
}

/** JSON as text. A string is shown unchanged. The content is never interpreted as markup. */
export function JsonBlock({ value, label }: { value: unknown; label: string }) {
  return <CodeBlock label={label} text={typeof value === 'string' ? value : JSON.stringify(value, null, 2)} />
}

/** A secret that is shown only once, with a button to copy it. */
export function Secret({ value, label, onDone }: { value: string; label: string; onDone: () => void }) {
  const [copied, copy] = useCopy(value)
  return (
    <div className="flex flex-col gap-3">
      <p className="rounded-control bg-warn-wash px-3 py-2 text-sm text-warn">
        Copy this value now. It is shown only once. Store it like a password.
      </p>
      <output aria-label={label} className="rounded-control border bg-code p-3 font-mono text-sm break-all select-all">
        {value}
      </output>
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={copy}>
          {copied ? <Check aria-hidden className="size-4" /> : <Copy aria-hidden className="size-4" />}
          {copied ? 'Copied' : 'Copy'}
        </Button>
        <Button tone="primary" onClick={onDone}>
          I have saved it
        </Button>
      </div>
    </div>
  )
}

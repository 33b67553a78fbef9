import { CodeBlock } from '../../../components/records/copy.tsx'

/** What is to be registered at a provider. */
export function CallbackUrl({ url }: { url: string }) {
  return (
    <div>
      <p className="mb-1.5 text-sm text-soft">Register exactly this redirect URL at the provider:</p>
      <CodeBlock label="redirect URL" text={url} />
    </div>
  )
}

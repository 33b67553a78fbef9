import type { DeliveryWithPayload } from '@halfkey/sdk'
import { Card } from '../../../components/layout/card.tsx'
import { Tabs } from '../../../components/layout/tabs.tsx'
import { CopyButton, JsonBlock } from '../../../components/records/copy.tsx'
import { useFilters } from '../../../components/table/filters.tsx'
import { sentBody } from '../snippets.ts'

/** The payload: formatted, or byte for byte as sent. The URL holds which. */
export function Payload({ delivery }: { delivery: DeliveryWithPayload }) {
  const { values, set } = useFilters()
  const body = sentBody(delivery)
  if (body === null)
    return (
      <Card title="Payload">
        <p className="text-sm text-soft">The event is older than 30 days. Its payload is no longer stored.</p>
      </Card>
    )
  return (
    <Card title="Payload">
      <Tabs
        label="Payload"
        value={values.payload === 'raw' ? 'raw' : 'pretty'}
        onChange={(payload) => set({ payload: payload === 'raw' ? 'raw' : undefined })}
        tabs={[
          { value: 'pretty', label: 'Formatted', content: <JsonBlock label="payload" value={delivery.payload} /> },
          {
            value: 'raw',
            label: 'Raw',
            content: (
              <figure className="relative min-w-0 rounded-control border bg-code">
                <figcaption className="px-3 pt-2 text-xs text-soft">
                  {new TextEncoder().encode(body).length} bytes. The signature covers exactly these bytes.
                </figcaption>
                <pre
                  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
                  tabIndex={0}
                  dir="ltr"
                  className="max-h-96 overflow-y-auto p-3 pt-1 pr-12 font-mono text-[0.8125rem] leading-relaxed break-all whitespace-pre-wrap"
                >
                  <code>{body}</code>
                </pre>
                <div className="absolute top-1.5 right-1.5">
                  <CopyButton text={body} what="body" />
                </div>
              </figure>
            ),
          },
        ]}
      />
    </Card>
  )
}

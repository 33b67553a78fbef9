import { useState } from 'react'
import go from '../../../../examples/receivers/receiver.go?raw'
import javascript from '../../../../examples/receivers/receiver.mjs?raw'
import python from '../../../../examples/receivers/receiver.py?raw'
import typescript from '../../../../examples/receivers/receiver.ts?raw'
import { Button } from '../components/controls/button.tsx'
import { Card } from '../components/layout/card.tsx'
import { Tabs } from '../components/layout/tabs.tsx'
import { CodeBlock } from '../components/records/copy.tsx'

const SAMPLES = [
  { value: 'typescript', label: 'TypeScript', file: 'receiver.ts', text: typescript },
  { value: 'javascript', label: 'JavaScript', file: 'receiver.mjs', text: javascript },
  { value: 'python', label: 'Python', file: 'receiver.py', text: python },
  { value: 'go', label: 'Go', file: 'receiver.go', text: go },
] as const

function download({ file, text }: (typeof SAMPLES)[number]): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  const link = Object.assign(document.createElement('a'), { href: url, download: file })
  link.click()
  URL.revokeObjectURL(url)
}

/** Receivers that verify deliveries, to copy or download. */
export function Samples() {
  const [value, setValue] = useState<(typeof SAMPLES)[number]['value']>('typescript')
  return (
    <Card
      title="Verify deliveries"
      description="Each delivery is signed with the secret of its endpoint. These receivers check the signature. All but the TypeScript one need no packages."
    >
      <Tabs
        label="Language"
        value={value}
        onChange={setValue}
        tabs={SAMPLES.map((sample) => ({
          value: sample.value,
          label: sample.label,
          content: (
            <div className="flex min-w-0 flex-col items-start gap-3">
              <div className="max-h-96 w-full min-w-0 overflow-y-auto">
                <CodeBlock label={sample.file} text={sample.text} />
              </div>
              <Button onClick={() => download(sample)}>Download {sample.file}</Button>
            </div>
          ),
        }))}
      />
    </Card>
  )
}

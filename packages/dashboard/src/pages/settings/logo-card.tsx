import type { App } from '@halfkey/sdk'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ChangeEvent, useRef, useState } from 'react'
import { api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { fieldErrors, messageOf } from '../../error-words.ts'

/** Pixels. The pages show logos at most 48 pixels high; this is enough for dense screens. */
const SIDE_MAX = 512
const BYTES_MAX = 64 * 1024

/** A file as an address, which the page's policy lets an image have; one by reference it does not. */
function addressOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result as string)
    reader.onerror = () => reject(new Error('The file cannot be read.'))
    reader.readAsDataURL(file)
  })
}

/** Any image that the browser can draw, as a PNG that fits, base64. @throws Error if it cannot be drawn */
async function pngOf(file: File): Promise<string> {
  const image = new Image()
  image.src = await addressOf(file)
  await image.decode().catch(() => {
    throw new Error('This file is not an image that your browser can show.')
  })
  const scale = Math.min(1, SIDE_MAX / Math.max(image.width, image.height, 1))
  const canvas = document.createElement('canvas')
  canvas.width = Math.max(1, Math.round(image.width * scale))
  canvas.height = Math.max(1, Math.round(image.height * scale))
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height)
  const png = canvas.toDataURL('image/png').slice('data:image/png;base64,'.length)
  if ((png.length * 3) / 4 > BYTES_MAX)
    throw new Error('This image is larger than 64 KiB as a PNG. Choose a smaller or simpler image.')
  return png
}

function Picture({ app }: { app: App }) {
  const { sha256 = '' } = app.branding.logo ?? {}
  const query = useQuery({
    queryKey: ['apps', app.id, 'logo', sha256],
    queryFn: ({ signal }) => api.apps.logo(app.id, { signal }),
  })
  if (query.data === undefined) return null
  return (
    <img
      src={`data:image/png;base64,${query.data.png}`}
      alt={`Logo of ${app.name}`}
      className="max-h-24 max-w-full self-start rounded-control border border-line p-2"
    />
  )
}

/** The image that the hosted pages and portals show, with a way to change it. */
export function LogoCard({ app, readOnly }: { app: App; readOnly: boolean }) {
  const client = useQueryClient()
  const toast = useToast()
  const chooser = useRef<HTMLInputElement>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const change = async (work: () => Promise<unknown>, said: string) => {
    setBusy(true)
    setProblem(null)
    try {
      await work()
      await client.invalidateQueries({ queryKey: ['apps'] })
      toast.done(said)
    } catch (error) {
      setProblem(fieldErrors(error).png ?? messageOf(error))
    } finally {
      setBusy(false)
    }
  }
  const choose = ({ target }: ChangeEvent<HTMLInputElement>) => {
    const file = target.files?.[0]
    target.value = ''
    if (file !== undefined) void change(async () => api.apps.setLogo(app.id, { png: await pngOf(file) }), 'Logo saved')
  }
  const { logo } = app.branding
  return (
    <Card
      title="Logo"
      description="Shown at the top of the hosted pages and of the webhook portal of your subscribers. Stored as a PNG of at most 512 × 512 pixels and 64 KiB."
    >
      <div className="flex flex-col gap-4">
        {logo === null ? <p className="text-sm text-soft">No logo.</p> : <Picture app={app} />}
        {problem === null ? null : (
          <p role="alert" className="text-sm text-danger">
            {problem}
          </p>
        )}
        {readOnly ? null : (
          <div className="flex flex-wrap gap-2">
            <input
              ref={chooser}
              type="file"
              accept="image/*"
              aria-label="Logo file"
              className="sr-only"
              tabIndex={-1}
              onChange={choose}
            />
            <Button busy={busy} onClick={() => chooser.current?.click()}>
              {logo === null ? 'Choose an image' : 'Replace'}
            </Button>
            {logo === null ? null : (
              <Button busy={busy} onClick={() => void change(() => api.apps.removeLogo(app.id), 'Logo removed')}>
                Remove
              </Button>
            )}
          </div>
        )}
      </div>
    </Card>
  )
}

import { useMutation } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { mayExport } from '../../api.ts'
import { messageOf } from '../../error-words.ts'
import { useSession } from '../../shell/session-context.ts'
import { Button } from '../controls/button.tsx'
import { useToast } from '../layout/toast.tsx'

/** Downloads all records of a list that match the filters, as `<list>-<date>.csv`. */
export function CsvButton({
  list,
  path = `/${list}`,
  query,
}: {
  list: string
  /** The list in the API. */
  path?: string
  /** The filters, by their names in the SDK. */
  query: Record<string, string | undefined>
}) {
  const { session } = useSession()
  const { failed } = useToast()
  const download = useMutation({
    mutationFn: async () => {
      // Loaded with the first download: most visits make none.
      const { readCsv, save } = await import('../../csv.ts')
      save(await readCsv(path, query), `${list}-${new Date().toISOString().slice(0, 10)}.csv`)
    },
    onError: (error) => failed('The CSV was not downloaded', messageOf(error)),
  })
  if (!mayExport(session)) return null
  return (
    <Button className="ml-auto" busy={download.isPending} onClick={() => download.mutate()}>
      <Download aria-hidden className="size-4" />
      Download CSV
    </Button>
  )
}

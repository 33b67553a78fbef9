import { fetchApi } from './api.ts'

type Query = Record<string, string | undefined>

const wireName = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The error of the API in words, with its details. */
async function reasonOf(answer: Response): Promise<string> {
  const body = (await answer.json().catch(() => ({}))) as { error?: string; details?: { message: string }[] }
  const details = (body.details ?? []).map(({ message }) => message)
  return [...new Set([body.error ?? `The server answered with status ${answer.status}.`, ...details])].join(' ')
}

/** Reads a whole list as CSV. `query` has the filters by their names in the SDK. @throws Error with the reason in words */
export async function readCsv(path: string, query: Query): Promise<Blob> {
  const filters = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1])
  const search = new URLSearchParams(filters.map(([name, value]) => [wireName(name), value])).toString()
  const answer = await fetchApi(search === '' ? path : `${path}?${search}`, { headers: { accept: 'text/csv' } })
  if (!answer.ok) throw new Error(await reasonOf(answer))
  return answer.blob()
}

/** Saves a file in the browser, under a name. */
export function save(file: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  // The browser reads the file after the click.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

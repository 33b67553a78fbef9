import { describe, expect, test } from 'vitest'
import { list, type Page } from '../src/paging.ts'

/** Pages over records that the test changes between requests, newest first, as the server makes them. */
function pagesOf(records: { id: string }[], pageSize: number) {
  const asked: (number | undefined)[] = []
  const getPage = async (wanted: number | undefined): Promise<Page<{ id: string }>> => {
    asked.push(wanted)
    const page = wanted ?? 1
    const data = records.slice((page - 1) * pageSize, page * pageSize)
    return { data, total: records.length, page, pageSize, hasMore: page * pageSize < records.length }
  }
  return { asked, getPage }
}

const records = (count: number) => Array.from({ length: count }, (_, at) => ({ id: `usr_${count - at}` }))

async function idsOf(all: AsyncIterable<{ id: string }>): Promise<string[]> {
  const ids: string[] = []
  for await (const { id } of all) ids.push(id)
  return ids
}

describe('a list', () => {
  test('resolves to its first page, with one request', async () => {
    const { asked, getPage } = pagesOf(records(5), 2)
    const page = await list(getPage)
    expect(page).toEqual({ data: [{ id: 'usr_5' }, { id: 'usr_4' }], total: 5, page: 1, pageSize: 2, hasMore: true })
    expect(asked).toEqual([undefined])
  })

  test('iterates over every record of every page in order, and requests each page once', async () => {
    const { asked, getPage } = pagesOf(records(5), 2)
    expect(await idsOf(list(getPage))).toEqual(['usr_5', 'usr_4', 'usr_3', 'usr_2', 'usr_1'])
    expect(asked).toEqual([undefined, 2, 3])
  })

  test('requests a page only when the iteration reaches it', async () => {
    const { asked, getPage } = pagesOf(records(9), 2)
    for await (const { id } of list(getPage)) if (id === 'usr_7') break
    expect(asked).toEqual([undefined, 2])
  })

  test('can be iterated more than once, and after await, without a second request for its first page', async () => {
    const { asked, getPage } = pagesOf(records(3), 2)
    const users = list(getPage)
    expect((await users).total).toBe(3)
    expect(await idsOf(users)).toHaveLength(3)
    expect(await idsOf(users)).toHaveLength(3)
    expect(asked).toEqual([undefined, 2, 2])
  })

  test('returns a record once, although new records push it to the next page', async () => {
    const all = records(6)
    const { getPage } = pagesOf(all, 3)
    const ids: string[] = []
    for await (const { id } of list(getPage)) {
      ids.push(id)
      if (id === 'usr_4') all.unshift({ id: 'usr_8' }, { id: 'usr_7' })
    }
    expect(ids).toEqual(['usr_6', 'usr_5', 'usr_4', 'usr_3', 'usr_2', 'usr_1'])
  })

  test('ends at an empty page, whatever the total says', async () => {
    const getPage = async (page = 1) => ({
      data: page === 1 ? [{ id: 'a' }] : [],
      total: 9,
      page,
      pageSize: 1,
      hasMore: true,
    })
    expect(await idsOf(list(getPage))).toEqual(['a'])
  })

  test('throws the error of its first page, awaited or iterated, and leaves no unhandled rejection', async () => {
    const failing = list<{ id: string }>(async () => Promise.reject(new Error('down')))
    await expect(idsOf(failing)).rejects.toThrow('down')
    await expect(failing).rejects.toThrow('down')
  })
})

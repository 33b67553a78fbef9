import { chown, type FileHandle, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { keyOf, lineFor, newLineBy, readLine } from '../../../../platform/security/key-services/key-lines.ts'
import { KeyServiceAddressError, KeyServiceError } from '../../../../platform/security/key-services/key-service.ts'
import { CommandError } from '../../command.ts'

async function syncFolder(path: string): Promise<void> {
  // Windows has no such thing.
  const folder = await open(dirname(path), 'r').catch(() => undefined)
  await folder?.sync().catch(() => {})
  await folder?.close()
}

/**
 * Replaces the lines of a key file atomically: a reader sees the lines before or those after. Its owner stays;
 * a link to it stays a link. Two changes at once are the caller's to prevent.
 * @param byHand what to do where the file is not ours to write, e.g. because it is a mounted secret
 * @throws CommandError
 */
async function replaceLines(
  link: string,
  byHand: string,
  change: (lines: string[]) => Promise<string[]> | string[],
): Promise<void> {
  const path = await realpath(link)
  // One name, so that a process that is killed here leaves one draft at most, which the next one takes away.
  const draft = `${path}.new`
  let file: FileHandle | undefined
  try {
    const before = await stat(path)
    const lines = (await readFile(path, 'utf8')).split('\n').map((line) => line.trim())
    await rm(draft, { force: true })
    file = await open(draft, 'wx', 0o600)
    await file.writeFile((await change(lines.filter((line) => line !== ''))).map((line) => `${line}\n`).join(''))
    await file.sync()
    const { uid, gid } = await file.stat()
    if (before.uid !== uid || before.gid !== gid) await chown(draft, before.uid, before.gid)
    await rename(draft, path)
    await syncFolder(path)
  } catch (error) {
    if (error instanceof KeyServiceError || error instanceof KeyServiceAddressError) {
      await rm(draft, { force: true })
      throw error
    }
    if (file !== undefined) await rm(draft, { force: true })
    throw new CommandError(`The key file ${link} cannot be written: ${(error as Error).message}. ${byHand}`)
  } finally {
    await file?.close()
  }
}

/** Makes a new key the first of the file: it wraps from then on. The service that wrapped the first line wraps it. @throws CommandError */
export function addFirstKey(path: string): Promise<void> {
  const byHand = `Create its new content, a new key before the present one, with:
  (umask 077; { halfkey keys generate-kek; cat ${path}; } > kek.new)
Replace the file with it for every process, then run this again. If the processes do not all see the change at the same time, first put the new line after the present one everywhere, and then before it.`
  return replaceLines(path, byHand, async (lines) => [
    await newLineBy(readLine(lines[0] ?? '')?.service ?? null),
    ...lines,
  ])
}

/** Leaves nothing but the first key in the file. @throws CommandError */
export function keepFirstKey(path: string): Promise<void> {
  const byHand = 'Its old keys are no longer needed: delete every line but the first.'
  return replaceLines(path, byHand, (lines) => lines.slice(0, 1))
}

/**
 * Has every key of the file wrapped by a key service, or written plain. The keys stay the same, so that nothing in the
 * database changes. @returns how many lines changed @throws CommandError, KeyServiceError, KeyServiceAddressError
 */
export async function rewrapLines(path: string, service: string | null): Promise<number> {
  let changed = 0
  const byHand = 'Run this where the file can be written, and replace the file of every process with the result.'
  await replaceLines(path, byHand, (lines) =>
    Promise.all(
      lines.map(async (text) => {
        const line = readLine(text)
        if (line === null) throw new Error('a line holds no key')
        if (line.service === service) return text
        changed += 1
        return lineFor(await keyOf(line), service)
      }),
    ),
  )
  return changed
}

import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'

/** A file cannot be written. The message says what to do. */
class FileError extends Error {}

async function openPart(path: string): Promise<FileHandle> {
  const part = `${path}.part`
  if ((await stat(path).catch(() => null)) !== null)
    throw new FileError(`${path} already exists. Name another file, or delete this one.`)
  return open(part, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    // Of two writers of one file, the first to end would name an incomplete file.
    if (error.code === 'EEXIST')
      throw new FileError(
        `${part} exists: an export is running, or one was interrupted. If none is running, delete the file.`,
      )
    if (error.code === 'ENOENT') throw new FileError(`The folder of ${path} does not exist. Create it first.`)
    throw new FileError(`${part} cannot be written: ${error.message}`)
  })
}

/**
 * Writes a new file, for its owner alone. It appears under its name once it is complete and on the disk; when `write`
 * fails, nothing is left.
 * @throws FileError, and whatever `write` throws
 */
export async function writeWhole<T>(path: string, write: (file: FileHandle) => Promise<T>): Promise<T> {
  const part = `${path}.part`
  await using file = await openPart(path)
  try {
    const result = await write(file)
    await file.sync()
    await rename(part, path)
    return result
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

/**
 * Cuts bytes into lines, without their ends. A line of more than `bytesMax` is null, as soon as it is known to be, and
 * nothing of it is kept.
 */
export async function* readLines(source: AsyncIterable<Buffer>, bytesMax: number): AsyncGenerator<Buffer | null> {
  let parts: Buffer[] = []
  let length = 0
  for await (const chunk of source) {
    for (let start = 0; start < chunk.length; ) {
      const end = chunk.indexOf(10, start)
      const part = chunk.subarray(start, end === -1 ? chunk.length : end)
      if (length <= bytesMax && length + part.length > bytesMax) yield null
      length += part.length
      if (length <= bytesMax) parts.push(part)
      start += part.length + 1
      if (end === -1) continue
      if (length <= bytesMax) yield Buffer.concat(parts)
      parts = []
      length = 0
    }
  }
  if (length > 0 && length <= bytesMax) yield Buffer.concat(parts)
}

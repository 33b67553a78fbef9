import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { eventually } from '../../../test/harness/harness.ts'
import { addFirstKey, keepFirstKey } from '../../operations/cli/commands/keys/key-file-change.ts'
import type { Logger } from '../observability/log.ts'
import { keyIdOf, open, rewrap, seal, sealedPrefix } from './crypto.ts'
import { KeyFileError, openKeyFile } from './key-provider.ts'
import { newKeyLine } from './key-services/key-lines.ts'

const folder = mkdtempSync(join(tmpdir(), 'halfkey-keys-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0

function keyFile(...lines: string[]): string {
  files += 1
  const path = join(folder, `${files}.key`)
  put(path, ...lines)
  return path
}

/** As an editor or a rotation does: all at once. */
function put(path: string, ...lines: string[]): void {
  writeFileSync(`${path}.draft`, lines.map((line) => `${line}\n`).join(''), { mode: 0o600 })
  renameSync(`${path}.draft`, path)
}

const strict = { create: false }
const [first, second, third] = [newKeyLine(), newKeyLine(), newKeyLine()]
const text = async (opening: Promise<Buffer>) => (await opening).toString()

/** A process that follows its key file, and what it logs. */
async function running(path: string, accept: () => Promise<void> = async () => {}) {
  const said: string[] = []
  const say = (_: object, message: string) => void said.push(message)
  const log = { debug: say, info: say, warn: say, error: say } as unknown as Logger
  const keys = await openKeyFile(path, strict)
  keys.follow({ accept, log, lifetimeMs: null })
  return { keys, said }
}

describe('a sealed value', () => {
  test('opens in its context only, before and after it is wrapped anew; its ciphertext stays', async () => {
    const keys = await openKeyFile(keyFile(first), strict)
    const sealed = await seal(keys, 'secret', ['webhook', 'a'])
    const both = await openKeyFile(keyFile(second, first), strict)
    const fresh = await rewrap(both, sealed)
    const after = await openKeyFile(keyFile(second), strict)
    expect(await text(open(keys, sealed, ['webhook', 'a']))).toBe('secret')
    expect(await text(open(after, fresh, ['webhook', 'a']))).toBe('secret')
    for (const context of [['webhook', 'b'], ['webhook'], ['webhook', 'a', '']]) {
      await expect(open(keys, sealed, context)).rejects.toThrow()
      await expect(open(after, fresh, context)).rejects.toThrow()
    }
    expect(fresh.subarray(-22)).toEqual(sealed.subarray(-22))
    expect([keyIdOf(sealed), keyIdOf(fresh)]).toEqual([keys.keyId, after.keyId])
    expect(sealed.subarray(1, 18)).toEqual(sealedPrefix(keys.keyId))
  })

  test('opens with no other key, and says which one it needs', async () => {
    const keys = await openKeyFile(keyFile(first), strict)
    const sealed = await seal(keys, 'secret', [])
    const other = await openKeyFile(keyFile(second), strict)
    await expect(open(other, sealed, [])).rejects.toThrow(`put the line of key ${keys.keyId} back`)
    await expect(rewrap(other, sealed)).rejects.toThrow(`put the line of key ${keys.keyId} back`)
    await expect(rewrap(keys, await rewrap(await openKeyFile(keyFile(second, first), strict), sealed))).rejects.toThrow(
      `put the line of key ${other.keyId} back`,
    )
  })

  test('with any byte changed neither opens nor, in its wrap, is wrapped anew; cut short neither', async () => {
    const keys = await openKeyFile(keyFile(second, first), strict)
    const sealed = await seal(await openKeyFile(keyFile(first), strict), 'secret', ['a'])
    const wrapEnd = sealed.length - (12 + 6 + 16)
    for (let at = 0; at < sealed.length; at += 1) {
      const changed = Buffer.from(sealed)
      changed[at] = (changed[at] as number) ^ 1
      await expect(open(keys, changed, ['a']), `byte ${at}`).rejects.toThrow()
      if (at < wrapEnd) await expect(rewrap(keys, changed), `byte ${at}`).rejects.toThrow()
    }
    for (let length = 0; length < wrapEnd; length += 1) {
      await expect(rewrap(keys, sealed.subarray(0, length)), `${length} bytes`).rejects.toThrow(
        /truncated|version|put the line|changed or damaged/,
      )
    }
    await expect(rewrap(keys, randomBytes(200))).rejects.toThrow()
  })

  test("one's wrapped key in another's place does not open it", async () => {
    const keys = await openKeyFile(keyFile(first), strict)
    const [one, two] = [await seal(keys, 'one', ['a']), await seal(keys, 'two', ['a'])]
    const mixed = Buffer.concat([one.subarray(0, one.length - 31), two.subarray(two.length - 31)])
    await expect(open(keys, mixed, ['a'])).rejects.toThrow()
  })
})

describe('a key file', () => {
  test('of several lines: the first key wraps, all unwrap; blank lines and line ends do not matter', async () => {
    const path = keyFile(`${first}\r`, '', second, third)
    const keys = await openKeyFile(path, strict)
    const ids = await Promise.all(
      [first, second, third].map(async (line) => (await openKeyFile(keyFile(line), strict)).keyId),
    )
    expect([keys.keyId, keys.keyIds]).toEqual([ids[0], ids])
    for (const line of [first, second, third]) {
      const sealed = await seal(await openKeyFile(keyFile(line), strict), line, [])
      expect(await text(open(keys, sealed, []))).toBe(line)
    }
    expect(keyIdOf(await seal(keys, '', []))).toBe(ids[0])
  })

  test.each([
    ['nothing', []],
    ['31 bytes', [randomBytes(31).toString('base64')]],
    ['a key and something else', [first, 'nonsense']],
    ['a key as hex', [randomBytes(32).toString('hex')]],
    ['six keys', Array.from({ length: 6 }, () => newKeyLine())],
  ])('that holds %s is refused', async (_, lines) => {
    await expect(openKeyFile(keyFile(...lines), strict)).rejects.toThrow(KeyFileError)
  })

  test('that others can read is refused where it is not made, and closed where it is', async () => {
    const path = keyFile(first)
    chmodSync(path, 0o640)
    await expect(openKeyFile(path, strict)).rejects.toThrow(`chmod 600 ${path}`)
    await openKeyFile(path, { create: true })
    expect(statSync(path).mode & 0o777).toBe(0o600)
    await expect(openKeyFile(join(folder, 'none.key'), strict)).rejects.toThrow('does not exist')
  })

  test('of root may be read by a group, as orchestrators mount it, and by nobody else', async (context) => {
    context.skip(process.getuid?.() !== 0, 'only root can make a file that belongs to root')
    const path = keyFile(first)
    const group = 4_321
    chownSync(path, 0, group)
    chmodSync(folder, 0o711)
    const openAsOther = async (mode: number) => {
      chmodSync(path, mode)
      process.setegid?.(group)
      process.seteuid?.(group)
      try {
        return await openKeyFile(path, strict)
      } finally {
        process.seteuid?.(0)
        process.setegid?.(0)
      }
    }
    expect((await openAsOther(0o440)).keyIds).toHaveLength(1)
    for (const mode of [0o460, 0o444]) await expect(openAsOther(mode)).rejects.toThrow(`chmod 600 ${path}`)
    // A group has no business in a key file of the user that reads it.
    chownSync(path, group, group)
    await expect(openAsOther(0o440)).rejects.toThrow(`chmod 600 ${path}`)
    chownSync(path, 0, group)
    await expect(openKeyFile(path, strict)).rejects.toThrow(`chmod 600 ${path}`)
  })

  test('is changed all at once, keeps mode and owner, and stays a link where it is one', async () => {
    const path = keyFile(first)
    const link = join(folder, 'link.key')
    symlinkSync(path, link)
    await addFirstKey(link)
    const lines = readFileSync(path, 'utf8').split('\n')
    expect([lines.length, lines[1], lines[2]]).toEqual([3, first, ''])
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readFileSync(link, 'utf8')).toBe(readFileSync(path, 'utf8'))
    await keepFirstKey(link)
    expect(readFileSync(path, 'utf8')).toBe(`${lines[0]}\n`)
  })
})

describe('a running process', () => {
  test('seals by a new first key a second later, and opens by one that it has not seen yet at once', async () => {
    const path = keyFile(first)
    const { keys } = await running(path)
    const before = await seal(keys, 'before', [])
    put(path, second, first)
    const meanwhile = await seal(await openKeyFile(path, strict), 'meanwhile', [])
    expect(await text(open(keys, meanwhile, []))).toBe('meanwhile')
    expect(keyIdOf(await seal(keys, '', []))).toBe(keyIdOf(meanwhile))
    put(path, third, second, first)
    await eventually(
      'the third key seals',
      async () => keyIdOf(await seal(keys, '', [])) === keys.keyIds[0] && keys.keyIds.length === 3,
    )
    expect(await text(open(keys, before, []))).toBe('before')
  })

  test('keeps its keys when the file is damaged, gone, open to others or refused, and says so once', async () => {
    const path = keyFile(first)
    let refuse = false
    const { keys, said } = await running(path, async () => {
      if (refuse) throw new Error('not the keys of this database')
    })
    const { keyId } = keys
    const sealed = await seal(keys, 'secret', [])
    const stranger = keyFile(second)
    const sealedByStranger = await seal(await openKeyFile(stranger, strict), '', [])
    const spoils: (() => void)[] = [
      () => put(path, 'nonsense'),
      () => rmSync(path),
      () => {
        put(path, second, first)
        chmodSync(path, 0o644)
      },
      () => {
        refuse = true
        put(path, second)
      },
    ]
    for (const [at, spoil] of spoils.entries()) {
      spoil()
      // A key that is not known makes it look at once.
      await expect(open(keys, sealedByStranger, [])).rejects.toThrow('put the line')
      await expect(open(keys, sealedByStranger, [])).rejects.toThrow('put the line')
      expect(said).toHaveLength(at + 1)
      expect(keyIdOf(await seal(keys, '', []))).toBe(keyId)
      expect(await text(open(keys, sealed, []))).toBe('secret')
    }
    refuse = false
    expect(await text(open(keys, sealedByStranger, []))).toBe('')
    expect(keys.keyIds).toHaveLength(1)
  })
})

import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { ConfigError } from '../../config.ts'
import { idTokenOf, kidsOf, partOf } from '../../identity/id-tokens/id-tokens.fixture.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { apiKeyType } from '../../platform/security/api-key.ts'
import { VERSION } from '../../platform/version.ts'
import { runCli } from './cli.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

async function halfkey(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  let opened = 0
  const exitCode = await runCli(args, {
    openDeps: async () => {
      opened += 1
      const close = async () => {
        opened -= 1
      }
      return { deps: service.deps, migrated: [], close }
    },
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  expect(opened).toBe(0)
  return { exitCode, out, err: err.join('\n') }
}

test('config prints every setting without its secrets, and names what is wrong', async () => {
  vi.stubEnv('REDIS_URL', 'redis://:very-secret@127.0.0.1')
  vi.stubEnv('HALFKEY_EGRESS_PROXY', 'http://halfkey:very-secret@127.0.0.1:3128')
  vi.stubEnv('PORT', '8123')
  const { exitCode, out } = await halfkey('config')
  expect(exitCode).toBe(0)
  expect(out).toContain(`${'PORT'.padEnd(32)} 8123`)
  expect(out).toContain(`${'HALFKEY_ENV'.padEnd(32)} development  (default)`)
  expect(out.join('\n')).not.toContain('very-secret')
  expect(out.join('\n')).not.toContain(Buffer.from('halfkey:very-secret').toString('base64'))
  const malformed = [
    'https://a:very-secret@b',
    'socks5://a:very-secret@b',
    'http://very-secret/path',
    'http://a:%zz@very-secret',
  ]
  for (const bad of malformed) {
    vi.stubEnv('HALFKEY_EGRESS_PROXY', bad)
    const refused = await halfkey('config')
    expect([refused.exitCode, refused.err]).toEqual([78, expect.stringContaining('HALFKEY_EGRESS_PROXY must be')])
    expect(refused.err).not.toContain('very-secret')
  }
  vi.stubEnv('HALFKEY_EGRESS_PROXY', '')
  vi.stubEnv('PORT', 'eighty')
  const { exitCode: code, err } = await halfkey('config', '--json')
  vi.unstubAllEnvs()
  expect(code).toBe(78)
  expect(JSON.parse(err)).toEqual({ error: expect.stringContaining('PORT must be'), exitCode: 78 })
})

test('agents at /mcp are not given the internet where nothing here checks their addresses', async () => {
  vi.stubEnv('HALFKEY_EGRESS_PROXY', 'http://127.0.0.1:3128')
  vi.stubEnv('HALFKEY_EGRESS_PROXY_RESOLVES', 'on')
  expect((await halfkey('config')).exitCode).toBe(0)
  vi.stubEnv('HALFKEY_MCP_FETCH', 'on')
  const { exitCode, err } = await halfkey('config')
  expect([exitCode, err]).toEqual([78, expect.stringContaining('HALFKEY_MCP_FETCH must be off')])
  vi.stubEnv('HALFKEY_EGRESS_PROXY_RESOLVES', 'off')
  expect((await halfkey('config')).exitCode).toBe(0)
  vi.unstubAllEnvs()
})

test.each([
  [['keys', 'create', '--name', '--scopes=webhooks:read'], '--name'],
  [['keys', 'create', '--name', '--help'], '--name'],
  [['tenants', 'create', '--name', '--json'], '--name'],
])('%j: an option is never taken for the value of the one before', async (words, option) => {
  const { exitCode, err } = await halfkey(...words)
  expect([exitCode, err]).toEqual([2, expect.stringContaining(option)])
})

test('what a line tells to run is typed as the reader types it', async () => {
  const err: string[] = []
  const terminal = {
    openDeps: () => Promise.reject(new Error('opened')),
    out: () => {},
    err: (line: string) => err.push(line),
  }
  await runCli(['nothing'], { ...terminal, program: 'npm run halfkey --' })
  expect(err.join()).toContain('Run: npm run halfkey -- help')
})

test('keys generate prints a key and needs no database', async () => {
  const context = {
    openDeps: () => Promise.reject(new Error('opened')),
    out: (line: string) => void lines.push(line),
    err: () => {},
  }
  const lines: string[] = []
  expect(await runCli(['keys', 'generate'], context)).toBe(0)
  expect(await runCli(['keys', 'generate', '--json'], context)).toBe(0)
  expect(apiKeyType(lines[0] as string)).toBe('secret')
  expect(apiKeyType(JSON.parse(lines[1] as string).key)).toBe('secret')
})

test('keys create recovers a lost admin key; with one tenant it need not be named', async () => {
  const { exitCode, out } = await halfkey('keys', 'create', '--name', 'Recovered')
  expect(exitCode).toBe(0)
  const key = out.at(-1) as string
  expect((await service.admin.patch('/tenant', { name: 'Mine' }, { key })).status).toBe(200)
  const shown = await service.admin.get('/api-keys')
  expect(shown.body.data[0]).toMatchObject({ name: 'Recovered', scopes: ['*'], appId: null })
  expect(JSON.stringify(await halfkey('migrate', '--json'))).toContain('applied')
})

test('keys rotate-signing replaces the keys of ID tokens, too, and revokes them where it revokes', async () => {
  const ada = await signInAs(service, service.admin)
  const kidOf = async () => partOf(await idTokenOf(ada), 0).kid as string
  const first = await kidOf()
  expect((await halfkey('keys', 'rotate-signing')).out).toContain('Keys of ID tokens replaced: 1.')
  const second = await kidOf()
  const { out } = await halfkey('keys', 'rotate-signing', '--json')
  expect(JSON.parse(out.join('')).idTokenKeys).toBe(1)
  const third = await kidOf()
  expect(await kidsOf(service, ada.appId)).toEqual([third, second, first])
  expect((await halfkey('keys', 'rotate-signing', '--revoke-previous')).out).toContain('Keys of ID tokens revoked: 3.')
  const kids = await kidsOf(service, ada.appId)
  expect(kids).toHaveLength(1)
  expect([first, second, third]).not.toContain(kids[0])
})

test('tenants create makes a tenant whose key works; then keys create must be told which', async () => {
  const made = await halfkey('tenants', 'create', '--name', 'Acme', '--json')
  expect(made.exitCode).toBe(0)
  const { tenantId, appId, key } = JSON.parse(made.out[0] as string)
  expect((await service.admin.get('/tenant', { key })).body.data).toMatchObject({ id: tenantId, name: 'Acme' })
  const unclear = await halfkey('keys', 'create', '--name', 'x')
  expect([unclear.exitCode, unclear.err.includes(tenantId)]).toEqual([2, true])
  const bound = await halfkey(
    'keys',
    'create',
    '--name',
    'Web',
    '--tenant',
    tenantId,
    '--type',
    'publishable',
    '--app',
    appId,
    '--json',
  )
  expect(JSON.parse(bound.out[0] as string)).toMatchObject({ tenantId, type: 'publishable', appId, scopes: [] })
  const narrow = await halfkey(
    'keys',
    'create',
    '--name',
    'x',
    '--tenant',
    tenantId,
    '--scopes',
    'users:read,webhooks:write',
    '--json',
  )
  expect(JSON.parse(narrow.out[0] as string).scopes).toEqual(['users:read', 'webhooks:write'])
  const foreign = await halfkey(
    'keys',
    'create',
    '--name',
    'x',
    '--tenant',
    tenantId,
    '--app',
    service.admin.appId,
    '--json',
  )
  expect([foreign.exitCode, JSON.parse(foreign.err).error.includes('appId')]).toEqual([1, true])
  const unknown = await halfkey('keys', 'create', '--name', 'x', '--tenant', 'ten_nonsense')
  expect([unknown.exitCode, unknown.err.includes(tenantId)]).toEqual([1, true])
})

test.each([
  [['nonsense'], 'halfkey help'],
  [['keys'], 'halfkey help'],
  [['keys', 'create'], '--name'],
  [['keys', 'create', '--name', ' '], '--name'],
  [['keys', 'create', '--nonsense'], 'Usage'],
  [['keys', 'create', 'x', '--name', 'x'], 'Usage'],
  [['keys', 'create', '--name', 'x', '--scopes', 'users:delete'], 'users:read'],
  [['keys', 'create', '--name', 'x', '--type', 'public'], 'publishable'],
  [['keys', 'create', '--name', 'x', '--type', 'publishable'], '--app'],
  [['keys', 'create', '--name', 'x', '--type', 'publishable', '--app', 'y', '--scopes', '*'], '--scopes'],
  [['tenants', 'create'], '--name'],
  [['keys', 'generate', '--name', 'x'], 'Usage'],
  [['serve', '--port', '1'], 'Usage: halfkey serve'],
  [['help', 'nonsense'], 'halfkey help'],
  [['keys', 'creat'], 'Did you mean create?'],
  [['tenats', 'create'], 'Did you mean tenants?'],
  [['keys', 'create', '--nam', 'x'], 'Did you mean --name?'],
  [['completion', 'tcsh'], 'bash, zsh, fish'],
])('%j is wrong usage and is told how to go on', async (args, told) => {
  const { exitCode, out, err } = await halfkey(...args)
  expect([exitCode, out]).toEqual([2, []])
  expect(err).toContain(told)
})

test('help names every command, and explains each', async () => {
  for (const args of [[], ['help'], ['--help'], ['-h']]) {
    const { exitCode, out } = await halfkey(...args)
    expect(exitCode).toBe(0)
    for (const name of [
      'serve',
      'migrate',
      'tenants create',
      'keys create',
      'keys generate',
      'keys rotate-kek',
      'keys generate-kek',
    ])
      expect(out.join('\n')).toContain(name)
  }
  for (const args of [
    ['help', 'keys', 'create'],
    ['keys', 'create', '--help'],
  ]) {
    expect((await halfkey(...args)).out[0]).toContain('--scopes')
  }
})

test('--version is the version of the package', async () => {
  expect((await halfkey('--version')).out).toEqual([VERSION])
  expect(JSON.parse((await halfkey('--version', '--json')).out[0] as string)).toEqual({ version: VERSION })
})

test.each([
  ['', ['keys', 'deliveries', '--version']],
  ['key', ['keys']],
  ['keys ', ['create', 'rotate-kek']],
  ['keys create --na', ['--name']],
  ['deliveries retry --webhook wh_x --all', ['--all-dead-letters']],
  ['completion f', ['fish']],
])('after "halfkey %s" bash offers what may follow', async (typed, offered) => {
  const { out } = await halfkey('completion', 'bash')
  const words = ['halfkey', ...typed.split(' ')]
  const script = `${out.join('\n')}
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}) COMP_CWORD=${words.length - 1}
    _halfkey; echo "\${COMPREPLY[*]}"`
  const { stdout, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' })
  expect([stdout.trim().split(' '), stderr]).toEqual([expect.arrayContaining(offered), ''])
})

test('the completion scripts of zsh and fish know every command and option too', async () => {
  const bash = (await halfkey('completion', 'bash')).out.join('\n')
  expect((await halfkey('completion', 'zsh')).out.join('\n')).toContain(bash)
  const fish = (await halfkey('completion', 'fish')).out.join('\n')
  for (const word of new Set(bash.match(/--[a-z-]+/g))) expect(fish).toContain(word)
})

test('a bad configuration ends with 78, a database that is unreachable or cuts the connection with 1', async () => {
  const told: string[] = []
  const failing = (error: Error) => ({
    openDeps: () => Promise.reject(error),
    out: () => {},
    err: (line: string) => void told.push(line),
  })
  expect(await runCli(['migrate'], failing(new ConfigError(['PORT must be a whole number'])))).toBe(78)
  expect(
    await runCli(['migrate'], failing(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }))),
  ).toBe(1)
  const cut = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })
  expect(await runCli(['migrate'], failing(cut))).toBe(1)
  expect(told[0]).toContain('PORT')
  expect(told[1]).toContain('DATABASE_URL')
  expect(told[2]).toMatch(/connection was lost \(write EPIPE\).*Run this again/)
})

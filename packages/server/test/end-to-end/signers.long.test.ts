import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign, verify } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { publishableKey } from '../../src/identity/sessions/sessions.fixture.ts'
import { runCli } from '../../src/operations/cli/cli.ts'
import { checkSigners } from '../../src/operations/doctor/signers.ts'
import { canonicalJson } from '../../src/platform/security/canonical-json.ts'
import { hmacSha256Bytes, open, seal } from '../../src/platform/security/crypto.ts'
import { logIn, loginOptions, loginVerify, newAuthenticator, signUp } from '../harness/authenticator.ts'
import { expectError } from '../harness/envelope.ts'
import { call, eventually, newDatabase, type Service, startService, type Tenant } from '../harness/harness.ts'
import { makeSoftHsm, NO_SOFTHSM, type SoftHsm } from '../harness/softhsm.ts'

/** So often a transaction is found idle for a second before it counts as one that waits for a module. */
const LOOKS = 5

const partOf = (token: string, at: number) =>
  JSON.parse(Buffer.from(token.split('.')[at] as string, 'base64url').toString())

/** The processes of this one in which a library signs. */
function signing(): number[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        const [, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        return parent === String(process.pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('pkcs11-signer')
      } catch {
        return false
      }
    })
    .map(Number)
}

describe.skipIf(NO_SOFTHSM !== null)(
  `keys in a hardware module${NO_SOFTHSM === null ? '' : ` (skipped: ${NO_SOFTHSM})`}`,
  () => {
    let hsm: SoftHsm
    let database: Awaited<ReturnType<typeof newDatabase>>
    const running: Service[] = []
    beforeAll(async () => {
      hsm = makeSoftHsm()
      for (const [name, value] of Object.entries(hsm.env)) vi.stubEnv(name, value)
      for (const name of ['token', 'token-2', 'identity', 'identity-2']) hsm.makeSigningKey(name)
    })
    afterEach(async () => {
      for (const each of running.splice(0).toReversed()) await each.stop()
      await database?.drop()
    })
    afterAll(() => {
      hsm?.remove()
      vi.unstubAllEnvs()
    })

    const named = (...keys: string[]) => keys.map((key) => `${key.replace(/-\d$/, '')}:${hsm.address(key)}`).join(' ')

    async function first(signers: string): Promise<Service> {
      database = await newDatabase('migrated')
      const service = await startService({ DATABASE_URL: database.url, HALFKEY_SIGNERS: signers })
      running.push(service)
      return service
    }

    /** Another process of the same installation. */
    async function beside(service: Service, signers: string): Promise<Service> {
      const other = await startService({
        DATABASE_URL: service.databaseUrl,
        HALFKEY_KEK_FILE: service.deps.config.kekFile as string,
        HALFKEY_PUBLIC_URL: `http://localhost:${new URL(service.url).port}`,
        HALFKEY_SIGNERS: signers,
        HALFKEY_ROLE: 'api',
      })
      running.push(other)
      return other
    }

    async function halfkey(service: Service, ...args: string[]) {
      const said: string[] = []
      const openDeps = async () => ({ deps: service.deps, close: async () => {} })
      const write = (line: string) => void said.push(line)
      return { code: await runCli(args, { openDeps, out: write, err: write }), said: said.join('\n') }
    }

    async function person(service: Service, tenant: Tenant) {
      const key = await publishableKey(tenant)
      const authenticator = newAuthenticator()
      const tokens = await signUp({ url: service.url, key }, { email: 'ada@example.com' }, { authenticator })
      return { ...tokens, key, authenticator } as { accessToken: string; refreshToken: string; key: string } & {
        authenticator: typeof authenticator
      }
    }

    const sessions = (service: Service, { key, accessToken }: { key: string; accessToken: string }) =>
      call(service.url, 'GET', '/v1/auth/sessions', { key, headers: { authorization: `Bearer ${accessToken}` } })

    const jwks = async (service: Service) =>
      (await (await fetch(`${service.url}/.well-known/jwks.json`)).json()) as { keys: { kid: string; x: string }[] }

    test('sign access tokens from the first start on; the database holds no private half', async () => {
      const service = await first(named('token'))
      const tenant = service.admin
      const ada = await person(service, tenant)
      const keys = await jwks(service)
      await jwtVerify(ada.accessToken, createLocalJWKSet(keys as never))
      expect((await sessions(service, ada)).status).toBe(200)
      const [signer] = [await service.deps.signers.first('token')]
      expect(keys.keys.map(({ x }) => x)).toEqual([signer?.publicKey.toString('base64url')])
      const rows = await service.sql('select private_key_sealed, remote_public_key from signing_keys')
      expect(rows).toEqual([{ private_key_sealed: null, remote_public_key: signer?.publicKey }])
      expect((await halfkey(service, 'records', 'verify')).code).toBe(0)
    })

    test('sign once what is kept for a repeat, which gets the same token', async () => {
      const service = await first(named('token'))
      const ada = await person(service, service.admin)
      const refresh = () =>
        service.admin.post('/auth/refresh', { refreshToken: ada.refreshToken }, { headers: { 'idempotency-key': 'a' } })
      const [one, two] = [await refresh(), await refresh()]
      expect([one.status, two.status]).toEqual([200, 200])
      expect(two.headers.get('idempotency-replayed')).toBe('true')
      expect(two.body).toEqual(one.body)
      await jwtVerify(one.body.data.accessToken, createLocalJWKSet((await jwks(service)) as never))
      expect((await sessions(service, { ...ada, accessToken: one.body.data.accessToken })).status).toBe(200)
    })

    test('take over from a key in the database by a rotation, and give back, and nobody is signed out', async () => {
      const service = await first('')
      const other = await beside(service, named('token', 'token-2'))
      const ada = await person(service, service.admin)
      const rotated = await halfkey(other, 'keys', 'rotate-signing', '--json')
      expect(rotated.code, rotated.said).toBe(0)
      const { id, remotePublicKey } = JSON.parse(rotated.said)
      expect(remotePublicKey).toBe((await other.deps.signers.first('token'))?.publicKey.toString('hex'))
      const eve = await eventually('the module signs', async () => {
        const made = await logIn({ url: other.url, key: ada.key }, ada.authenticator)
        return partOf(made.accessToken, 0).kid === id && made
      })
      // A process without the module verifies, and cannot sign: it says so, and does the rest.
      await eventually('the process without the module knows it', async () => (await jwks(service)).keys.length === 2)
      for (const each of [service, other])
        for (const { accessToken } of [ada, eve])
          expect((await sessions(each, { ...ada, accessToken })).status).toBe(200)
      const refused = await service.admin.post('/auth/refresh', { refreshToken: eve.refreshToken })
      expectError(refused, 500, 'key_service_unavailable')
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      // What it had done stands: the same refresh token gets its successor from a process that can sign.
      expect(
        (
          await other.admin.call('POST', '/auth/refresh', {
            key: service.admin.key,
            body: { refreshToken: eve.refreshToken },
          })
        ).status,
      ).toBe(200)
      expect((await halfkey(other, 'keys', 'rotate-signing', '--local')).code).toBe(0)
      await eventually('the key in the database signs', async () => {
        const made = await logIn({ url: service.url, key: ada.key }, ada.authenticator).catch(() => null)
        return made !== null && (await sessions(service, { ...ada, ...made })).status === 200
      })
    })

    test('that do not answer hold no transaction, and what needs none goes on', async () => {
      const service = await first(named('token', 'identity'))
      const tenant = service.admin
      const ada = await person(service, tenant)
      const page = { url: service.url, key: ada.key }
      const others: { refreshToken: string }[] = []
      for (let n = 0; n < 10; n += 1) others.push(await logIn(page, ada.authenticator))
      const asked = await loginOptions(page)
      for (const pid of signing()) process.kill(pid, 'SIGSTOP')
      const signIn = loginVerify(page, asked.challengeId, ada.authenticator.get(asked.publicKey))
      const refreshes = others.map(({ refreshToken }) => tenant.post('/auth/refresh', { refreshToken }))
      const keyed = tenant.post(
        '/auth/refresh',
        { refreshToken: ada.refreshToken },
        { headers: { 'idempotency-key': 'k' } },
      )
      const config = tenant.get('/mpc/config')
      const all = Promise.all([signIn, ...refreshes, keyed, config])
      let isOver = false
      void all.finally(() => {
        isOver = true
      })
      // The statements of all have ended, and none left a transaction open; reads and writes are answered meanwhile.
      await eventually('all have done what they do', async () => {
        const [row] = await service.sql<{ begun: number; renewed: number }>(
          'select count(*)::int as begun, count(*) filter (where generation > 0)::int as renewed from sessions',
        )
        return row?.begun === 12 && row.renewed === 11
      })
      // One that a busy process is slow to go on with is another one, or has moved, a few looks later.
      let idle = new Map<string, number>()
      let looked = 0
      while (!isOver) {
        const open = await service.sql(
          `select pid, state_change::text, query from pg_stat_activity
           where datname = current_database() and state like 'idle in transaction%' and state_change < now() - interval '1 second'`,
        )
        idle = new Map(open.map((row) => JSON.stringify(row)).map((row) => [row, (idle.get(row) ?? 0) + 1]))
        expect([...idle].filter(([, looks]) => looks >= LOOKS)).toEqual([])
        expect((await tenant.post('/users', {})).status).toBe(201)
        expect((await sessions(service, ada)).status).toBe(200)
        expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
        looked += 1
      }
      expect(looked).toBeGreaterThan(LOOKS)
      for (const answer of await all) {
        expectError(answer, 500, 'key_service_unavailable')
        expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
      }
      // The repeat of the kept call gets what it would have got.
      const again = await eventually('it signs again', async () => {
        const answer = await tenant.post(
          '/auth/refresh',
          { refreshToken: ada.refreshToken },
          { headers: { 'idempotency-key': 'k' } },
        )
        return answer.status === 200 && answer
      })
      expect((await sessions(service, { ...ada, accessToken: again.body.data.accessToken })).status).toBe(200)
    })

    test('count only as records that Halfkey wrote, and never without a MAC', async () => {
      const service = await first(named('token'))
      const ada = await person(service, service.admin)
      const { publicKey, privateKey } = generateKeyPairSync('ed25519')
      const id = randomBytes(12).toString('base64url')
      const spki = publicKey.export({ type: 'spki', format: 'der' })
      await service.sql(
        `insert into signing_keys (id, public_key, remote_public_key, refresh_secret_sealed, created_at) values ($1, $2, $3, $4, now())`,
        [id, spki, spki.subarray(-32), await seal(service.deps.keys, randomBytes(32), ['signing key', 'refresh', id])],
      )
      // As an installation from before MACs, which accepts records without one.
      const other = await beside(service, named('token'))
      Object.assign(other.deps.enforcement, { isEnforced: async () => false })
      const message = `${Buffer.from(JSON.stringify({ ...partOf(ada.accessToken, 0), kid: id })).toString('base64url')}.${ada.accessToken.split('.')[1]}`
      const forged = `${message}.${sign(null, Buffer.from(message), privateKey).toString('base64url')}`
      for (const each of [service, other]) {
        expectError(await sessions(each, { ...ada, accessToken: forged }), 401, 'session_invalid')
        expect((await sessions(each, ada)).status).toBe(200)
      }
      const verified = await halfkey(service, 'records', 'verify')
      expect([verified.code, verified.said]).toEqual([1, expect.stringContaining(id)])
      await service.sql('delete from signing_keys where id = $1', [id])
      // The public half of a genuine record is under its MAC.
      await service.sql('update signing_keys set remote_public_key = $1', [spki.subarray(-32)])
      const third = await beside(service, named('token'))
      expectError(await sessions(third, ada), 401, 'session_invalid')
    })

    /** What somebody who has the secrets of an installation and writes to its database can have sent: the answer to a repeated call. */
    async function forger(service: Service) {
      const tenant = service.admin
      const ada = await person(service, tenant)
      const ask = () =>
        tenant.post('/auth/refresh', { refreshToken: ada.refreshToken }, { headers: { 'idempotency-key': 'k' } })
      const begun = await ask()
      expect(begun.status, begun.text).toBe(200)
      const claims = partOf(begun.body.data.accessToken, 1)
      const { keys } = service.deps
      const [row] = await service.sql<{ scope_hash: Buffer; answer: Buffer }>(
        'select scope_hash, answer from idempotency_keys where sealed',
      )
      const { scope_hash: scope, answer } = row as { scope_hash: Buffer; answer: Buffer }
      const context = ['idempotent answer', claims.tid, scope.toString('hex')]
      const kept = JSON.parse((await open(keys, answer, context)).toString())
      const textBy = ({ refreshKey }: { refreshKey: KeyObject }, id: string, json: string) => {
        const payload = Buffer.from(json).toString('base64url')
        const tag = hmacSha256Bytes(refreshKey, `halfkey/v1/unsigned-access-token ${payload}`)
        return `hk_unsigned_${id}.${payload}.${tag.toString('base64url')}`
      }
      const answered = async (accessToken: string) => {
        const forged = JSON.stringify({ data: { ...kept.data, accessToken } })
        await service.sql('update idempotency_keys set answer = $1 where scope_hash = $2', [
          await seal(keys, forged, context),
          scope,
        ])
        return ask()
      }
      return { ada, claims, textBy, answered }
    }

    test('sign for nobody who has the secrets beside them more than the sessions that go on', async () => {
      const service = await first(named('token'))
      const { ada, claims, textBy, answered } = await forger(service)
      const authenticator = newAuthenticator()
      const eve = await signUp({ url: service.url, key: ada.key }, { email: 'eve@example.com' }, { authenticator })
      const { sub, sid } = partOf(eve.accessToken, 1)
      const key = await service.deps.signingKeys.current()
      const refused = async (what: string, text: string) => {
        const answer = await answered(text)
        expect([what, answer.status, answer.body.code]).toEqual([what, 500, 'internal_error'])
      }
      const { iat, exp } = claims
      for (const change of [
        { exp: iat + 3_601 },
        { exp: 4_102_444_800 },
        { iat: iat - 121 },
        { iat: iat + 600, exp: exp + 600 },
        { sub },
        { sid },
        { sid: `ses_${'0'.repeat(26)}` },
        { tid: `ten_${'0'.repeat(26)}` },
        { aud: `app_${'0'.repeat(26)}` },
        { client_id: `app_${'0'.repeat(26)}` },
        { amr: [...claims.amr, 'otp', 'mfa'] },
        { auth_time: claims.auth_time + 60 },
        { iss: 'https://other.example' },
        { roles: ['admin'] },
      ])
        await refused(JSON.stringify(change), textBy(key, key.id, JSON.stringify({ ...claims, ...change })))
      // The first of two counts for some who verify.
      await refused('twice', textBy(key, key.id, `{"sub":"${sub}",${JSON.stringify(claims).slice(1)}`))
      const genuine = JSON.stringify(claims)
      await refused('another tag', `${textBy(key, key.id, genuine).slice(0, -43)}${'A'.repeat(43)}`)
      const allowed = await answered(textBy(key, key.id, genuine))
      expect(allowed.status, allowed.text).toBe(200)
      expect((await sessions(service, { ...ada, accessToken: allowed.body.data.accessToken })).status).toBe(200)

      // Nor for a session whose row was changed, or made, by somebody who writes the database.
      const [before] = await service.sql<{ signed_in_at: Date; mac: Buffer }>(
        'select signed_in_at, mac from sessions where id = $1',
        [claims.sid],
      )
      await service.sql(
        `update sessions set mac = mac, signed_in_at = signed_in_at + interval '1 minute' where id = $1`,
        [claims.sid],
      )
      const later = await answered(textBy(key, key.id, JSON.stringify({ ...claims, auth_time: claims.auth_time + 60 })))
      expect([later.status, later.body.code]).toEqual([500, 'record_tampered'])
      await service.sql('update sessions set signed_in_at = $2, mac = null where id = $1', [
        claims.sid,
        before?.signed_in_at,
      ])
      await service.sql('update sessions set mac = $2 where id = $1', [claims.sid, before?.mac])
      // A second factor that the row names, and that was never shown.
      await service.sql(`update sessions set amr = amr || '{otp,mfa}' where id = $1`, [claims.sid])
      await refused('otp', textBy(key, key.id, JSON.stringify({ ...claims, amr: [...claims.amr, 'otp', 'mfa'] })))
      await service.sql(
        `insert into sessions (tenant_id, id, app_id, user_id, amr, signed_in_at, refreshed_at, expires_at, is_new_user, address)
         select tenant_id, $2, app_id, user_id, amr, signed_in_at, refreshed_at, expires_at, false, address from sessions where id = $1`,
        [sid, `ses_${'1'.repeat(26)}`],
      )
      const made = textBy(key, key.id, JSON.stringify({ ...claims, sub, sid: `ses_${'1'.repeat(26)}` }))
      expect((await answered(made)).body.code).toBe('record_tampered')

      // A copy from before the last rotation has the secrets of a key that no longer signs.
      expect((await halfkey(service, 'keys', 'rotate-signing', '--local')).code).toBe(0)
      expect((await halfkey(service, 'keys', 'rotate-signing')).code).toBe(0)
      const next = await eventually('the new key signs', async () => {
        const now = await service.deps.signingKeys.current()
        return now.id !== key.id && now.isRemote && now
      })
      await refused('the key of then', textBy(key, key.id, genuine))
      await refused('by the key of then', textBy(key, next.id, genuine))
      expect((await answered(textBy(next, next.id, genuine))).status).toBe(200)
      const out = await call(service.url, 'DELETE', `/v1/auth/sessions/${claims.sid}`, {
        key: ada.key,
        headers: { authorization: `Bearer ${allowed.body.data.accessToken}` },
      })
      expect(out.status, out.text).toBe(200)
      await refused('a session that was revoked', textBy(next, next.id, genuine))
    })

    test('sign only what stands where an access token stands', async () => {
      const service = await first(named('token'))
      const { claims, textBy } = await forger(service)
      const key = await service.deps.signingKeys.current()
      // Genuine in every other respect.
      const text = textBy(key, key.id, JSON.stringify(claims))
      const guest = await service.admin.post('/guests', {
        metadata: { accessToken: text, note: `"accessToken":"${text}"` },
      })
      expect([guest.status, guest.body.data?.metadata?.accessToken], guest.text).toEqual([201, text])
      expect(guest.body.data.metadata.note).toBe(`"accessToken":"${text}"`)
      await jwtVerify(guest.body.data.accessToken, createLocalJWKSet((await jwks(service)) as never))
    })

    test('are each asked to sign something by the doctor', async () => {
      const ask = async (...keys: string[]) =>
        (await checkSigners({ ...service.deps.config, signers: named(...keys) })).map(({ check, level, seen }) => [
          check,
          level,
          seen,
        ])
      const service = await first(named('token'))
      expect(await ask('token', 'identity')).toEqual([
        ['signers.token', 'ok', expect.stringContaining(' signs, as ')],
        ['signers.identity', 'ok', expect.stringContaining(' signs, as ')],
      ])
      expect(await ask('token-9')).toEqual([['signers.token', 'problem', expect.stringContaining(' does not sign: ')]])
    })

    test('have the pin that clients are given, sign what clients check, and name their successor', async () => {
      const service = await first(named('identity'))
      const isSigned = (publicKey: string, statement: object, signature: string) => {
        const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey, 'hex').toString('base64url') }
        const text = Buffer.from(canonicalJson(statement))
        return verify(null, text, createPublicKey({ key: jwk, format: 'jwk' }), Buffer.from(signature, 'hex'))
      }
      const configOf = async (of: Service) => {
        const answer = await of.admin.call('GET', '/mpc/config', { key: service.admin.key })
        expect(answer.status, answer.text).toBe(200)
        const { signature: _, identity, ...sealing } = answer.body.data
        return { identity, sealing }
      }
      const { identity, sealing } = await configOf(service)
      expect(identity.publicKey).toBe((await service.deps.signers.first('identity'))?.publicKey.toString('hex'))
      const statement = { ...sealing, notAfter: identity.notAfter, purpose: 'halfkey/v1/mpc-config' }
      expect(isSigned(identity.publicKey, statement, identity.signature)).toBe(true)
      // The same key is no rotation.
      const same = await halfkey(service, 'keys', 'rotate-identity')
      expect([same.code, same.said]).toEqual([1, expect.stringContaining('already')])
      const other = await beside(service, named('identity-2', 'identity'))
      expect((await halfkey(other, 'keys', 'rotate-identity')).code).toBe(0)
      const next = (await configOf(other)).identity
      const named2 = { from: identity.publicKey, to: next.publicKey, purpose: 'halfkey/v1/identity-rotation' }
      expect(next.previous.publicKey).toBe(identity.publicKey)
      expect(isSigned(identity.publicKey, named2, next.previous.signature)).toBe(true)
      expect((await halfkey(other, 'keys', 'rotate-identity', '--local')).code).toBe(0)
      expect((await configOf(other)).identity.previous.publicKey).toBe(next.publicKey)
      // A row that somebody wrote is nobody's key.
      await service.sql(
        `update identity_keys set public_key = $1, private_key_sealed = null where position = (select max(position) from identity_keys)`,
        [randomBytes(32)],
      )
      const answer = await other.admin.call('GET', '/mpc/config', { key: service.admin.key })
      expectError(answer, 500, 'key_service_unavailable')
    })
  },
)

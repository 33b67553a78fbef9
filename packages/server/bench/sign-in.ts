// Sign-in's reach: passkey logins against the bare library's verification, refreshes, checks of access tokens.

import { createHash, createSign, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { verifyAuthenticationResponse } from '@simplewebauthn/server'
import { newId } from '../src/platform/ids.ts'
import type { Load } from './child/load.ts'
import { startHelper } from './children.ts'
import { median, medianSpread, spreadText, whole } from './figures.ts'
import type { Outcome } from './main.ts'
import { errorsOf, type Measured, measure, type Run } from './measure.ts'
import type { Watched } from './proc.ts'
import { cpuText, type Row, step } from './report.ts'
import { type Bed, memoryText, openBed } from './service.ts'
import { call, firstTenant, forEachOf } from './tenant.ts'

const LOGIN_MIN = 1_200
const REFRESH_MIN = 2_000
const P99_MAX_MS = 40
const PASSKEYS = 1_000
const CONNECTIONS = 32
const RP_ID = 'localhost'
/** User present and verified (WebAuthn L3, section 6.1). */
const FLAGS = 0x05

/** A passkey with its private key: what an authenticator holds. */
export interface Passkey {
  userId: string
  credentialId: string
  coseKey: Buffer
  privateKey: KeyObject
}

interface Stage extends Measured {
  tenant: { tenantId: string; appId: string }
  passkeys: Passkey[]
  runs: number
}

function newPasskey(): Passkey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x, y } = publicKey.export({ format: 'jwk' }) as { x: string; y: string }
  // COSE_Key (RFC 9053, section 7.1.1) of ES256: {1: 2, 3: -7, -1: 1, -2: x, -3: y}.
  const coseKey = Buffer.concat([
    Buffer.from('a5010203262001215820', 'hex'),
    Buffer.from(x, 'base64url'),
    Buffer.from('225820', 'hex'),
    Buffer.from(y, 'base64url'),
  ])
  return { userId: newId('usr'), credentialId: randomBytes(32).toString('base64url'), coseKey, privateKey }
}

/** The assertion that the passkey's authenticator makes. */
export function assertion(passkey: Passkey, challenge: string, origin: string) {
  const authenticatorData = Buffer.concat([
    createHash('sha256').update(RP_ID).digest(),
    Buffer.from([FLAGS, 0, 0, 0, 0]),
  ])
  const clientData = Buffer.from(JSON.stringify({ type: 'webauthn.get', challenge, origin, crossOrigin: false }))
  const signed = Buffer.concat([authenticatorData, createHash('sha256').update(clientData).digest()])
  return {
    id: passkey.credentialId,
    rawId: passkey.credentialId,
    type: 'public-key' as const,
    clientExtensionResults: {},
    response: {
      clientDataJSON: clientData.toString('base64url'),
      authenticatorData: authenticatorData.toString('base64url'),
      signature: createSign('sha256').update(signed).sign(passkey.privateKey).toString('base64url'),
      userHandle: Buffer.from(passkey.userId).toString('base64url'),
    },
  }
}

/** Users with a passkey each, and an email: `<user id>@example.com`. */
export async function preparePasskeys(bed: Bed, tenant: Stage['tenant'], n: number): Promise<Passkey[]> {
  const passkeys = Array.from({ length: n }, newPasskey)
  const { tenantId, appId } = tenant
  const ids = passkeys.map((each) => each.userId)
  await bed.sql(
    `insert into users (tenant_id, id, app_id, email, email_key, party_id, search_text, created_at, updated_at)
     select $1, id, $2, id || '@example.com', id || '@example.com', id || '::bench', id, now(), now() from unnest($3::text[]) id`,
    [tenantId, appId, ids],
  )
  await bed.sql(
    `insert into passkeys (tenant_id, id, app_id, user_id, credential_id, public_key, sign_count, rp_id, aaguid, transports,
       device_type, backed_up, created_at, updated_at)
     select $1, 'pky_' || substr(u, 5), $2, u, c, k, 0, $3, '00000000-0000-0000-0000-000000000000', '{hybrid,internal}', 'singleDevice', false, now(), now()
     from unnest($4::text[], $5::bytea[], $6::bytea[]) as p(u, c, k)`,
    [
      tenantId,
      appId,
      RP_ID,
      ids,
      passkeys.map((each) => Buffer.from(each.credentialId, 'base64url')),
      passkeys.map((each) => each.coseKey),
    ],
  )
  await bed.sealRecords()
  await bed.sql('vacuum analyze users')
  await bed.sql('vacuum analyze passkeys')
  await bed.checkpoint()
  return passkeys
}

const measureHere = (stage: Stage, load: Partial<Load>) =>
  measure(stage, { connections: CONNECTIONS, warmUpMs: 500, ...load })

/** Bodies of `n` logins, each for a challenge of its own. */
export async function logins(stage: Measured & { passkeys: Passkey[] }, n: number): Promise<string[]> {
  const origin = `http://localhost:${stage.service.port}`
  const bodies: string[] = []
  await forEachOf(n, async (index) => {
    const { data } = await call<{ data: { challengeId: string; publicKey: { challenge: string } } }>(
      stage,
      'GET',
      '/auth/passkey/login-options',
    )
    const passkey = stage.passkeys[index % stage.passkeys.length] as Passkey
    const credential = assertion(passkey, data.publicKey.challenge, origin)
    bodies.push(JSON.stringify({ challengeId: data.challengeId, credential }))
  })
  return bodies
}

/** Verifications a second by the library alone, one after the other. */
async function bareVerifications(stage: Stage): Promise<number> {
  const [passkey] = stage.passkeys as [Passkey]
  const origin = `http://localhost:${stage.service.port}`
  const challenge = randomBytes(32).toString('base64url')
  const response = assertion(passkey, challenge, origin)
  const options = {
    response,
    expectedChallenge: challenge,
    expectedOrigin: origin,
    expectedRPID: RP_ID,
    credential: { id: passkey.credentialId, publicKey: new Uint8Array(passkey.coseKey), counter: 0 },
  }
  let count = 0
  const startedAt = performance.now()
  while (performance.now() - startedAt < stage.forMs) {
    const { verified } = await verifyAuthenticationResponse(options)
    if (!verified) throw new Error('the library refuses the assertion')
    count += 1
  }
  return (count / (performance.now() - startedAt)) * 1000
}

/** Half the load that it can bear. */
const halfOf = (runs: readonly Run[]) => median(runs.map((run) => run.perSecond)) / 2

/** A figure at full load, and one of its latency at half of it. */
function rows(what: string, min: number, runs: readonly Run[], half: Run, raw?: string): Row[] {
  const rate = median(runs.map((run) => run.perSecond))
  return [
    {
      what: `${what}, ${CONNECTIONS} connections`,
      measured: `${whole(rate)}/s, ${errorsOf(runs)} errors`,
      floor: `≥ ${whole(min)}/s, no errors`,
      holds: rate >= min && errorsOf(runs) === 0,
      ...(raw === undefined ? {} : { raw }),
      runs: runs.map((run) => whole(run.perSecond)).join(', '),
      times: spreadText(medianSpread(runs.map((run) => run.latencyMs))),
      cpu: cpuText(runs.map((run) => run.cpu)),
    },
    {
      what: `${what}, at half of that (${whole(half.perSecond)}/s)`,
      measured: spreadText(half.latencyMs),
      floor: `p99 < ${P99_MAX_MS} ms`,
      holds: half.latencyMs.p99 < P99_MAX_MS && half.errors === 0,
      cpu: cpuText([half.cpu]),
    },
  ]
}

async function loginRows(stage: Stage): Promise<Row[]> {
  const path = '/v1/auth/passkey/login-verify'
  const raw = await bareVerifications(stage)
  const runs: Run[] = []
  for (let run = 0; run < stage.runs; run += 1) {
    step(`passkey login, run ${run + 1}`)
    const list = await logins(stage, Math.ceil((raw * (stage.forMs + 700)) / 1000))
    runs.push(await measureHere(stage, { bodies: { path, list } }))
  }
  const perSecond = halfOf(runs)
  const list = await logins(stage, Math.ceil((perSecond * (stage.forMs + 700)) / 1000))
  const half = await measureHere(stage, { bodies: { path, list }, perSecond })
  return rows('POST /v1/auth/passkey/login-verify (ES256)', LOGIN_MIN, runs, half, `${whole(raw)}/s, the library alone`)
}

async function refreshRows(stage: Stage): Promise<Row[]> {
  const path = '/v1/auth/refresh'
  const tokens: { refreshToken: string }[] = []
  for (const body of await logins(stage, CONNECTIONS * (stage.runs + 1))) {
    const { data } = await call<{ data: (typeof tokens)[number] }>(
      stage,
      'POST',
      '/auth/passkey/login-verify',
      JSON.parse(body),
    )
    tokens.push(data)
  }
  const next = () => tokens.splice(0, CONNECTIONS).map((each) => each.refreshToken)
  const runs: Run[] = []
  for (let run = 0; run < stage.runs; run += 1) {
    step(`refresh, run ${run + 1}`)
    runs.push(await measureHere(stage, { refresh: { path, tokens: next() } }))
  }
  const half = await measureHere(stage, { refresh: { path, tokens: next() }, perSecond: halfOf(runs) })
  return rows('POST /v1/auth/refresh', REFRESH_MIN, runs, half)
}

/** `npm run bench -- sign-in` */
export async function signIn(quick: boolean): Promise<Outcome> {
  const bed = await openBed()
  const load = startHelper('load')
  try {
    const service = await bed.start()
    const tenant = await firstTenant(bed)
    const passkeys = await preparePasskeys(bed, tenant, PASSKEYS)
    const watched: Watched = {
      service: { pid: service.pid },
      PostgreSQL: { pid: bed.postgresPid, family: true },
      load: { pid: load.pid },
    }
    const stage: Stage = {
      bed,
      service,
      tenant,
      load,
      passkeys,
      runs: quick ? 1 : 3,
      forMs: quick ? 3_000 : 6_000,
      watched,
    }
    const login = await loginRows(stage)
    const refresh = await refreshRows(stage)
    const facts = [
      `PostgreSQL ${bed.postgresVersion} (embedded), service ${memoryText(service)}, ${stage.runs} runs of ${stage.forMs / 1000} s a figure, medians`,
      `logged: ${JSON.stringify(bed.complaints())}`,
    ]
    return { facts, rows: [...login, ...refresh] }
  } finally {
    await load.end()
    await bed.close()
  }
}

// A tenant's users as they would be: names that repeat, addresses at few providers, ids in the order of creation.
import { idTime } from '../../src/platform/ids.ts'
import { step } from '../report.ts'
import type { Bed } from '../service.ts'

export interface Population {
  users: number
  tenantId: string
  appId: string
  otherAppId: string
}

export const SHARE_OF_SECOND_APP = 0.2
const ROWS_A_STATEMENT = 100_000
/** Users come one every so often, up to now. */
const GAP_MS = 25_000

const words = (text: string) => text.trim().split(/\s+/)

const FIRST_NAMES = words(`
  Ada Aisha Alan Alice Amara Anna Anton Aylin Ben Bianca Boris Carla Carlos Chen Chloe Clara Dana Daniel David Diego Dmitri Elena Elias
  Ella Emma Erik Eva Fatima Felix Finn Freya Gabriel George Grace Hana Hans Hugo Ida Igor Ines Ivan Jack Jana Jin Jonas Jorge Julia
  Kai Karim Karin Kenji Lara Lea Leon Liam Lina Luca Lucia Magnus Maria Marta Mateo Max Mei Mia Mohamed Nadia Nina Noah Nora Olga
  Oliver Omar Otto Paula Pedro Petra Priya Rachel Ravi Rosa Ruth Samir Sara Sofia Stefan Tara Theo Thomas Tim Uma Vera Victor Wei
  Yara Yusuf Zoe`)
const LAST_STARTS = words(`
  Ander Berg Black Bran Cart Castel Dahl Draken Eber Eng Fair Fisch Gold Grun Hart Holm Iver Jan Karl Kirch Lind Lund Mark Mont Nord
  Oster Pet Quin Ram Rosen Sand Schwarz Stein Strand Thor Ulr Vander Wald Wein Zim`)
const LAST_ENDS = words(`
  berg berger bach by dal e er eyck feld field ford gren haus heim holt horst ini ley mann meyer nikov o os quist rup sen shaw sky son
  stad stein ström ton vic wall well wick wood worth y`)
const PROVIDERS = words(`
  gmail.com gmail.com gmail.com gmail.com gmail.com gmail.com gmail.com outlook.com outlook.com outlook.com yahoo.com yahoo.com icloud.com
  icloud.com hotmail.com proton.me gmx.de web.de fastmail.com example.org`)

/** A pseudo-random whole number below `n` out of row number and salt: the same users in every run. */
const pick = (salt: number, n: string) => `(abs(hashint8extended(g, ${salt})) % ${n})`
const from = (parameter: string, salt: number, skewed = false) => {
  const index = pick(salt, `cardinality(${parameter}::text[])`)
  // The lesser of two draws: the first names of the list are common, the last ones rare.
  const drawn = skewed ? `least(${index}, ${pick(salt + 50, `cardinality(${parameter}::text[])`)})` : index
  return `(${parameter}::text[])[1 + ${drawn}]`
}

/** Sixteen base-32 digits: base64 digits of a hash, two for each of ours. */
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const BASE32 = '0123456789abcdefghjkmnpqrstvwxyz'

const INSERT = `
  with raw as (
    select g, ($8::bigint + g * $9::bigint) as ms, ${from('$3', 1)} as first_name, ${from('$4', 2, true)} || ${from('$5', 3, true)} as last_name,
      ${from('$6', 4)} as provider, translate(encode(substr(sha256(int8send(g)), 1, 12), 'base64'), '${BASE64}', '${BASE32}${BASE32}') as tail,
      ${pick(5, '100')} as app_draw, ${pick(6, '100')} as level_draw
    from generate_series($10::bigint, $11::bigint) g),
  made as (
    select *, 'usr_' || substr('${BASE32}', 1 + (ms >> 45 & 31)::int, 1) || substr('${BASE32}', 1 + (ms >> 40 & 31)::int, 1)
        || substr('${BASE32}', 1 + (ms >> 35 & 31)::int, 1) || substr('${BASE32}', 1 + (ms >> 30 & 31)::int, 1)
        || substr('${BASE32}', 1 + (ms >> 25 & 31)::int, 1) || substr('${BASE32}', 1 + (ms >> 20 & 31)::int, 1)
        || substr('${BASE32}', 1 + (ms >> 15 & 31)::int, 1) || substr('${BASE32}', 1 + (ms >> 10 & 31)::int, 1)
        || substr('${BASE32}', 1 + (ms >> 5 & 31)::int, 1) || substr('${BASE32}', 1 + (ms & 31)::int, 1) || tail as id,
      lower(first_name || '.' || last_name || g || '@' || provider) as email, first_name || ' ' || last_name as name,
      case when g % 2 = 0 then 'customer-' || (g * 7919 % 100000007) end as external_id
    from raw)
  insert into users (tenant_id, id, app_id, email, email_key, email_verified, name, external_id, party_id, trust_level, metadata, search_text,
    last_seen_at, created_at, updated_at)
  select $1, id, case when app_draw < $12::int then $7 else $2 end, email, email, true, name, external_id,
    id || '::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441',
    case when level_draw < 90 then 'embedded' when level_draw < 97 then 'shared' else 'self_custody' end,
    case when g % 3 = 0 then '{"plan":"gold"}'::jsonb else '{}' end,
    lower(concat_ws(E'\\x01', id, email, name, external_id)), now(), to_timestamp(ms / 1000.0), to_timestamp(ms / 1000.0)
  from made`

/** Writes the users and their counts, vacuums and analyses. @returns how long that took, milliseconds */
export async function fillUsers(bed: Bed, { users, tenantId, appId, otherAppId }: Population): Promise<number> {
  const startedAt = performance.now()
  const firstMs = Date.now() - users * GAP_MS
  // The database's digits must be the service's own.
  const digits = idTime(firstMs)
  // Indexes are built afterwards, which takes a fraction of the time.
  const indexes = await bed.sql<{ name: string; definition: string }>(
    `select indexname as name, indexdef as definition from pg_indexes where tablename = 'users' and indexname <> 'users_pkey'`,
  )
  for (const { name } of indexes) await bed.sql(`drop index ${name}`)
  for (let row = 0; row < users; row += ROWS_A_STATEMENT) {
    step(`users from ${row}, ids from usr_${digits}`)
    const until = Math.min(users, row + ROWS_A_STATEMENT) - 1
    const share = Math.round(SHARE_OF_SECOND_APP * 100)
    await bed.sql(INSERT, [
      tenantId,
      appId,
      FIRST_NAMES,
      LAST_STARTS,
      LAST_ENDS,
      PROVIDERS,
      otherAppId,
      firstMs,
      GAP_MS,
      row,
      until,
      share,
    ])
  }
  for (const { name, definition } of indexes) {
    step(`index ${name}`)
    await bed.sql(`set maintenance_work_mem = '512MB'; ${definition}; reset maintenance_work_mem`)
  }
  const [first] = await bed.sql<{ id: string }>('select min(id) as id from users where tenant_id = $1', [tenantId])
  if (!first?.id.startsWith(`usr_${digits}`)) throw new Error(`ids are not as the service makes them: ${first?.id}`)
  await bed.sql(
    `insert into user_counts (tenant_id, app_id, trust_level, shard, n)
     select tenant_id, app_id, trust_level, 0, count(*) from users where not guest group by 1, 2, 3`,
  )
  await bed.sql('vacuum analyze users')
  await bed.sql('vacuum analyze user_counts')
  await bed.checkpoint()
  return performance.now() - startedAt
}

export interface Term {
  what: string
  term: string
  hits: number
  page: 'first' | 'middle' | 'last'
}

/** Terms of every kind: found once, a thousand times, nearly ten thousand times, everywhere, nowhere. */
export async function search(bed: Bed, { tenantId, users }: Population): Promise<Term[]> {
  const hitsOf = async (term: string) => {
    const [row] = await bed.sql<{ n: number }>(
      'select count(*)::int as n from users where tenant_id = $1 and position($2 in search_text) > 0',
      [tenantId, term],
    )
    return row?.n ?? 0
  }
  const [one] = await bed.sql<{ email: string; id: string }>(
    'select email, id from users where tenant_id = $1 order by id offset $2 limit 1',
    [tenantId, Math.floor(users / 3)],
  )
  const names = await bed.sql<{ name: string; n: number }>(
    `select lower(split_part(name, ' ', 2)) as name, count(*)::int as n from users where tenant_id = $1 group by 1 order by n`,
    [tenantId],
  )
  const nearest = (wanted: number) =>
    names.reduce((best, each) => (Math.abs(each.n - wanted) < Math.abs(best.n - wanted) ? each : best)).name
  const terms: [string, string, Term['page']][] = [
    ['one address', one?.email ?? '', 'first'],
    ['the end of an id', one?.id.slice(-8) ?? '', 'first'],
    ['a rare surname', nearest(users / 20_000), 'first'],
    ['a usual surname', nearest(users / 2_000), 'first'],
    ['part of an external id', 'customer-4242', 'first'],
    ['three characters, mostly of ids', 'q7x', 'first'],
    ['three characters, mostly of ids', 'q7x', 'middle'],
    ['a first name and a letter', 'wei z', 'first'],
    ['common trigrams, no match', 'gmail.commander', 'first'],
    ['a first name', 'maria', 'first'],
    ['a provider', 'gmail', 'first'],
    ['a provider', 'gmail', 'middle'],
    ['three characters in nearly all', 'com', 'first'],
    ['three characters in nearly all', 'com', 'middle'],
    ['two characters', 'zo', 'first'],
    ['one character', 'w', 'middle'],
  ]
  return Promise.all(terms.map(async ([what, term, page]) => ({ what, term, page, hits: await hitsOf(term) })))
}

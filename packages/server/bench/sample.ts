// With BENCH_SAMPLE=1: what PostgreSQL's backends are at, sampled, for where its CPU time goes.
import pg from 'pg'
import { pause } from './figures.ts'
import { step } from './report.ts'

const EVERY_MS = 10
const TOLD = 14

/** Starts sampling as the superuser; the answer stops and tells the most frequent. */
export async function sampleBackends(config: pg.ClientConfig): Promise<() => Promise<void>> {
  const client = new pg.Client({ ...config, application_name: 'bench sampler' })
  await client.connect()
  const found = new Map<string, number>()
  let samples = 0
  let over = false
  const loop = async () => {
    while (!over) {
      const { rows } = await client.query<{ what: string }>({
        name: 'sample',
        text: `select coalesce(nullif(application_name, ''), backend_type) || ' ' || coalesce(wait_event_type || ':' || wait_event, 'CPU')
            || ' ' || left(regexp_replace(query, '\\s+', ' ', 'g'), 90) as what
          from pg_stat_activity
          where pid <> pg_backend_pid() and (state = 'active' or state is null) and coalesce(wait_event_type, '') <> 'Activity'`,
      })
      samples += 1
      for (const { what } of rows) found.set(what, (found.get(what) ?? 0) + 1)
      await pause(EVERY_MS)
    }
  }
  const looping = loop()
  return async () => {
    over = true
    await looping
    await client.end()
    const top = [...found].sort((a, b) => b[1] - a[1]).slice(0, TOLD)
    step(`${samples} samples; backends seen at:`)
    for (const [what, count] of top) step(`  ${((100 * count) / samples).toFixed(1).padStart(5)} % ${what}`)
  }
}

/**
 * A process on an embedded database, driven by a test: `node process.ts <folder> <role>`. It answers JSON lines on
 * stdout and takes commands on stdin: `detach` leaves and ends; `write <n>` inserts the numbers from n on, one
 * transaction each, and says each one that was acknowledged.
 */
import { createInterface } from 'node:readline'
import pg from 'pg'
import { EmbeddedDatabaseError, type EmbeddedRole, openEmbedded } from '../../../src/platform/db/embedded/embedded.ts'

const [dataDir = '', role = 'all'] = process.argv.slice(2)
const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`)
const startedAt = performance.now()

try {
  const database = await openEmbedded({
    dataDir,
    role: role as EmbeddedRole,
    log: (message, fields) => say({ log: message, ...fields }),
  })
  const { detach: _, ...described } = database
  say({ event: 'open', ...described, tookMs: performance.now() - startedAt })
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, argument] = line.split(' ')
    if (command === 'write') write(database.connection, Number(argument)).catch(() => say({ event: 'cut off' }))
    if (command !== 'detach') continue
    await database.detach()
    say({ event: 'detached' })
    process.exit(0)
  }
} catch (error) {
  say({ event: 'refused', code: error instanceof EmbeddedDatabaseError ? error.code : '', message: String(error) })
  process.exit(1)
}

async function write(connection: pg.ClientConfig, first: number): Promise<void> {
  const client = new pg.Client(connection)
  client.on('error', () => {})
  await client.connect()
  for (let n = first; ; n++) {
    await client.query('insert into acknowledged (n) values ($1)', [n])
    say({ event: 'wrote', n })
  }
}

import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { newDatabase, startService } from '../../../test/harness/harness.ts'
import { DataFolder, killAll, query, ServiceProcess } from '../../../test/harness/service-process.ts'

afterAll(killAll)

test('a start with HALFKEY_MIGRATE=off changes no schema, and `halfkey migrate` does even with that setting', async (context) => {
  const database = await newDatabase()
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await database.drop()
    await folder.remove()
  })
  const tables = () =>
    query<{ count: string }>(
      { connectionString: database.url },
      "select count(*) from pg_tables where schemaname = 'public'",
    )
  const settings = {
    DATABASE_URL: database.url,
    HALFKEY_MIGRATE: 'off',
    HALFKEY_KEK_FILE: join(folder.path, 'kek.key'),
  }
  await expect(startService(settings)).rejects.toThrow(
    /0001_\w+\.sql, .*HALFKEY_MIGRATE is off\. Run `halfkey migrate`/,
  )
  expect((await tables())[0]?.count).toBe('0')

  const cli = new ServiceProcess({ cwd: folder.path, env: folder.env(settings), args: ['migrate'] })
  expect((await cli.exited).code, cli.stderr).toBe(0)
  const service = await startService(settings)
  await service.sql("update migrations set checksum = 'other' where name like '0002%'")
  await expect(startService(settings)).rejects.toThrow(/0002_\w+\.sql differs/)
  await service.stop()
})

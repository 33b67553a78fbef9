import type { Config } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import { openEgress } from '../../platform/egress/configured.ts'
import { createFloorCodec, FloorForgedError } from '../../platform/floor/document.ts'
import { describeSetbacks } from '../../platform/floor/marks.ts'
import { compare, readMarks } from '../../platform/floor/source.ts'
import { type FloorStorage, openFloorStorage } from '../../platform/floor/storage.ts'
import { readClaimedEpoch } from '../../platform/floor/store.ts'
import { openKeyFile } from '../../platform/security/key-provider.ts'
import { CHAINS } from '../restore/chains.ts'
import { type Finding, note, ok, problem, warning } from './finding.ts'

const CHECK = 'floor'
const ACCEPT =
  'halfkey restore show   # then restore accept, or bring back the newer database: docs/operating.md#the-floor'

/** @throws Error if the floor cannot be read */
async function look(db: Db, config: Config, storage: FloorStorage): Promise<Finding> {
  const bytes = await storage.read()
  if (bytes === null)
    return warning(
      CHECK,
      `There is no floor at ${storage.place}, so an earlier state of the database would not be noticed.`,
      'halfkey serve   # a running process writes it within a second; its log says if it cannot',
    )
  const keys = await openKeyFile(config.kekFile as string, { create: false })
  try {
    const { marks, writtenAt } = await createFloorCodec(keys).decode(bytes)
    const found = await readMarks(db, CHAINS, readClaimedEpoch)
    if (found.epoch > marks.epoch)
      return warning(
        CHECK,
        `The database says that a restore was accepted as epoch ${found.epoch}, and its floor at ${storage.place} is of epoch ${marks.epoch}.`,
        'halfkey restore show   # says whether an operator accepted it; a running process then writes the floor within a second',
      )
    const setbacks = await compare(db, CHAINS, marks, found)
    if (setbacks.length === 0)
      return ok(CHECK, `The database is not behind its floor at ${storage.place}, written at ${writtenAt}.`)
    return problem(CHECK, `The database is behind its floor: ${describeSetbacks(setbacks)}.`, ACCEPT)
  } catch (error) {
    if (!(error instanceof FloorForgedError)) throw error
    return problem(CHECK, `The floor at ${storage.place} does not verify: ${error.message}.`, ACCEPT)
  } finally {
    keys.close()
  }
}

/** Whether the database is behind its floor, and whether there is one. */
export async function checkFloor(db: Db, config: Config): Promise<Finding[]> {
  const egress = openEgress(config)
  try {
    const storage = openFloorStorage(config, egress)
    if (storage === null)
      return [note(CHECK, 'HALFKEY_FLOOR is off: an earlier state of the database is not noticed.', null)]
    return [await look(db, config, storage)]
  } finally {
    await egress.close()
  }
}

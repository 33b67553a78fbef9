import { CHAINS } from './operations/restore/chains.ts'
import type { Config } from './platform/config.ts'
import type { Db } from './platform/db/db.ts'
import type { Egress } from './platform/egress/egress.ts'
import { createFloorCodec } from './platform/floor/document.ts'
import { createFloor, type Floor, NO_FLOOR } from './platform/floor/floor.ts'
import { openFloorStorage } from './platform/floor/storage.ts'
import type { Logger } from './platform/observability/log.ts'
import type { Metrics } from './platform/observability/metrics.ts'
import type { KeyProvider } from './platform/security/key-provider.ts'
import type { RecordKind } from './platform/security/records/kind.ts'

interface Starting {
  config: Config
  db: Db
  egress: Egress
  keys: KeyProvider
  recordKinds: readonly RecordKind[]
  log: Logger
  metrics: Metrics
  now(): Date
  /** Whether this process made the installation. */
  isNew: boolean
  /** Whether it answers or works for others, unlike a command. */
  serves: boolean
}

/** The floor of a process as it is configured. It is not started yet. */
export function openFloor({ config, keys, recordKinds, serves, egress, ...starting }: Starting): Floor {
  const storage = serves ? openFloorStorage(config, egress) : null
  if (storage === null) {
    if (serves && config.env === 'production')
      starting.log.warn('HALFKEY_FLOOR is off, so an earlier state of the database would not be noticed')
    return NO_FLOOR
  }
  return createFloor({
    ...starting,
    chains: CHAINS,
    kinds: recordKinds.filter(({ floor }) => floor),
    storage,
    codec: createFloorCodec(keys),
    // In development, databases come and go beside one key file.
    isReplaced: starting.isNew && config.env === 'development',
    onAccepted: () => starting.db.records.forgetVersions(),
  })
}

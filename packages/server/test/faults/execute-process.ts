/**
 * The service as `halfkey serve` runs it, with a second ledger `remote` that is a call away from the transactions, and
 * where it is told to, its own death: it kills itself at the step that stands in the file of FAIL_AT_FILE, once.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { preamble, readyLines } from '../../src/banner.ts'
import { loadConfig } from '../../src/config.ts'
import { openLog } from '../../src/platform/observability/log.ts'
import type { FollowableLedger } from '../../src/platform/ports/ledger.ts'
import { start } from '../../src/start.ts'
import { createFaultyLedger } from '../harness/faulty-ledger.ts'

const failAt = process.env.FAIL_AT_FILE ?? ''
const aheadMs = Number(process.env.AHEAD_MS ?? '0')

const config = loadConfig()
const say = (text: string) => process.stdout.write(`${text}\n`)
const running = await start(config, openLog(config.logLevel), {
  now: () => new Date(Date.now() + aheadMs),
  ledgers: (deps) => {
    const remote = createFaultyLedger(deps.ledgers.get('embedded') as FollowableLedger, deps.db)
    // Long enough for a kill to meet it.
    remote.delayMs = { prepare: () => 5, submit: () => 5 }
    return [remote]
  },
  failpoint: async (step) => {
    if (!existsSync(failAt) || readFileSync(failAt, 'utf8') !== step) return
    rmSync(failAt)
    process.kill(process.pid, 'SIGKILL')
  },
  prepared: (database, first, pin) => say(preamble(config, database, first, pin)),
})
say(readyLines(config, running))
process.on('SIGTERM', () => {
  void running.stop().then(() => process.exit(0))
})

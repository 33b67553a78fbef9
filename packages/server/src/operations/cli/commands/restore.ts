import { describeSetback } from '../../../platform/floor/marks.ts'
import {
  type AcceptedRestore,
  acceptRestore,
  FloorUnreachableError,
  isBehind,
  type KeysDecision,
  type RestoreState,
  showRestore,
  UndecidedKeysError,
  UnknownKeysError,
} from '../../restore/service.ts'
import { CommandError, counted, defineCommand, EXIT, type Result, UsageError, withDeps } from '../command.ts'

/** What the database lacks of the floor, for people. */
function describeFloor({ place, writtenAt, forged, setbacks }: RestoreState): string[] {
  if (place === null) return ['HALFKEY_FLOOR is off: an earlier state of the database is not noticed.']
  if (forged !== null) return [`The floor at ${place} does not verify: ${forged}.`]
  if (writtenAt === null) return [`There is no floor at ${place} yet.`]
  if (setbacks.length === 0) return [`The database is not behind its floor at ${place}, written at ${writtenAt}.`]
  return [
    `The database is behind its floor at ${place}, written at ${writtenAt}:`,
    ...setbacks.map((setback) => `  ${describeSetback(setback)}`),
  ]
}

function describe(state: RestoreState): string[] {
  const { forgedEpochs: n } = state
  return [
    ...describeFloor(state),
    ...(n === 0
      ? []
      : [`Something other than Halfkey wrote to the database that ${counted(n, 'restore')} had been accepted.`]),
  ]
}

/** `halfkey restore show` */
export const restoreShow = defineCommand({
  name: 'restore show',
  summary: 'Say whether the database is behind its floor, and in what',
  details: 'Changes nothing. The exit code is 1 if the database is behind, or if the floor does not verify.',
  async run(_, context) {
    const state = await withDeps(context, (deps) => showRestore(deps).catch(unreadable))
    return { data: { ...state }, lines: describe(state), exitCode: isBehind(state) ? EXIT.failed : EXIT.done }
  },
})

function unreadable(error: unknown): never {
  if (error instanceof FloorUnreachableError)
    throw new CommandError(`The floor cannot be read or written: ${error.message}`)
  throw error
}

function linesOf(done: AcceptedRestore, isDecided: boolean): string[] {
  const { state, epoch, delegatedSessions, dashboardSessions, dashboardLinks, apiKeys, previousKeys } = done
  const ended = [
    counted(delegatedSessions, 'delegated session'),
    counted(dashboardSessions, 'dashboard session'),
    counted(dashboardLinks, 'unused dashboard link'),
    counted(apiKeys, 'API key'),
    counted(previousKeys, 'replaced API key value'),
  ]
  return [
    ...describe(state),
    `Accepted as epoch ${epoch}. Ended: all sessions of users, ${ended.join(', ')}.`,
    ...(isDecided && apiKeys === 0
      ? ['API keys were kept. Those that were revoked after this state was saved are valid again.']
      : []),
    'Suspensions, freezes, removed passkeys and changes of settings from after this state are undone. Repeat those that you know of.',
  ]
}

const DECIDE =
  'Nothing was done: API keys that were revoked after this state was saved are active again, and nothing says which these are. Choose --revoke-api-keys, --revoke-api-keys <id>… or --keep-api-keys.'

/** The active keys, and what there is to choose. */
function undecided({ state, keys, total }: UndecidedKeysError): Result {
  const lines = keys.map(
    ({ tenantId, id, name, type, last4, lastUsedAt }) =>
      `  ${tenantId}  ${id}  ${type} …${last4}  last used ${lastUsedAt ?? 'never'}  ${JSON.stringify(name)}`,
  )
  const more = total > keys.length ? [`  and ${total - keys.length} more`] : []
  return {
    data: { state, epoch: null, apiKeys: keys, total },
    lines: [...describe(state), `${counted(total, 'active API key')}:`, ...lines, ...more, DECIDE],
    exitCode: EXIT.failed,
  }
}

/** What the options say of the keys; null if they say nothing. */
function decisionOf(keep: boolean, revoke: string[] | true | undefined): KeysDecision | null {
  if (keep && revoke !== undefined)
    throw new UsageError('--keep-api-keys and --revoke-api-keys exclude each other. Choose one of them.')
  if (revoke === undefined) return keep ? 'keep' : null
  return revoke === true ? 'revoke' : { revoke }
}

/** `halfkey restore accept` */
export const restoreAccept = defineCommand({
  name: 'restore accept',
  summary: 'Take an earlier state of the database, such as a restored backup, for the present one',
  details: `Shows in what the database went back. Ends what may have come back to life with it: all sessions of users, all delegated sessions, dashboard sessions and links, and API key values that had been replaced. Records this in every audit log. Then running processes continue within a second.
API keys that were revoked after that state are active again. Without --revoke-api-keys or --keep-api-keys, the command lists the active keys and does nothing.
If the database is not behind its floor, nothing happens, unless you give --always.`,
  options: (command) =>
    command
      .option('--always', 'also if the database is not behind, as after a restore on a machine without the floor')
      .option(
        '--revoke-api-keys [ids...]',
        'revoke the API keys with these ids and keep the others; without an id, revoke all of them. `halfkey keys create` makes new ones',
      )
      .option('--keep-api-keys', 'keep all API keys, because none was revoked after that state'),
  async run({ always = false, keepApiKeys = false, revokeApiKeys }, context) {
    const apiKeys = decisionOf(keepApiKeys, revokeApiKeys)
    return withDeps(context, async (deps): Promise<Result> => {
      try {
        const done = await acceptRestore(deps, { always, apiKeys })
        if (done !== null) return { data: { ...done }, lines: linesOf(done, apiKeys !== null) }
        const state = await showRestore(deps)
        return { data: { state, epoch: null }, lines: [...describe(state), 'There is nothing to accept.'] }
      } catch (error) {
        if (error instanceof UndecidedKeysError) return undecided(error)
        if (error instanceof UnknownKeysError)
          throw new UsageError(`--revoke-api-keys: there is no active API key ${error.message}. Nothing was done.`)
        return unreadable(error)
      }
    })
  },
})

import type { Outcome, Prepared, Update } from '../../platform/ports/ledger.ts'
import type { Actor, Stage } from './stage.fixture.ts'

/** Nobody's here. */
export const BOB = `bob::1220${'b'.repeat(64)}`
/** No contract has it. */
export const NO_CONTRACT = `00${'9'.repeat(64)}`

/** So many at once. */
export const parallel = <T>(n: number, run: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: n }, (_, index) => run(index)))

/** The amounts of an actor's holdings. */
export const amountsOf = async (actor: Actor) =>
  (await actor.contracts()).map((contract) => contract.arguments.amount as string)

/** All updates of an actor, as far as they can be seen now. */
export const updatesOf = (stage: Stage, actor: Pick<Actor, 'party'>) =>
  seen(stage, (update) => update.actAs === actor.party)

/** All updates from the beginning that fit, as far as they can be seen now. */
async function seen(stage: Stage, fits: (update: Update) => boolean): Promise<Update[]> {
  const found: Update[] = []
  let cursor: string | null = null
  for (;;) {
    const page = await stage.ledger.follow(stage.db, stage.tenantId, cursor, 100)
    if (page.updates.length === 0) return found
    found.push(...page.updates.filter(fits))
    cursor = page.cursor
  }
}

/** What became of an actor's command. */
export const outcomeOf = (
  { ledger, db, tenantId }: Stage,
  actor: Pick<Actor, 'party'>,
  commandId: string,
  prepared?: Pick<Prepared, 'bytes'>,
): Promise<Outcome> =>
  ledger.getTransaction(db, tenantId, { actAs: actor.party, commandId, prepared: prepared?.bytes ?? null })

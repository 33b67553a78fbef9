import pg from 'pg'

/** What a row of a statement's result looks like, as node-postgres keeps it with a result. */
interface Description {
  fields: readonly { name: string; dataTypeID: number }[]
  _parsers: unknown
  _prebuiltEmptyResultObject: unknown
}

/** The parts of node-postgres that this file builds on. Its version is pinned, and `described-once.test.ts` tells if they move. */
interface Wire {
  describe(what: object): void
}
interface QueryParts {
  readonly name: string
  readonly _result: Description
  _accumulateRows: unknown
  prepare(wire: Wire): void
  handleRowDescription(message: unknown): void
  hasBeenParsed(wire: Wire): boolean
}

type Done = (error: Error | null, result: pg.QueryResult) => void

const QueryBase = pg.Query as unknown as new (config: pg.QueryConfig, done: Done) => QueryParts & pg.Submittable

/** What a connection knows of its statements, and the same connection without the request to describe one. */
interface Known {
  rows: Map<string, Description>
  silent: Wire
}
const connections = new WeakMap<Wire, Known>()

/** Connections of one database know the same: what is equal is kept once. Their number is bounded by that of statement texts. */
const descriptions = new Map<string, Description>()

function sharedOf({ fields, _parsers, _prebuiltEmptyResultObject }: Description): Description {
  const key = fields.map(({ name, dataTypeID }) => `${dataTypeID} ${name}`).join()
  const shared = descriptions.get(key) ?? { fields, _parsers, _prebuiltEmptyResultObject }
  descriptions.set(key, shared)
  return shared
}

function knownOf(wire: Wire): Known {
  let known = connections.get(wire)
  if (known === undefined) {
    known = { rows: new Map(), silent: Object.create(wire, { describe: { value: () => {} } }) as Wire }
    connections.set(wire, known)
  }
  return known
}

/**
 * A named statement that PostgreSQL describes once for a connection, not at every call: the description of a wide row takes longer
 * to make, send and read than the row. PostgreSQL ends a prepared statement whose result would have another shape (0A000),
 * so what is known holds as long as the connection: one that is PostgreSQL's own, not a pooler's, behind which servers change.
 */
class DescribedOnce extends QueryBase {
  #known: Known | undefined

  override prepare(wire: Wire): void {
    this.#known = knownOf(wire)
    const row = this.#known.rows.get(this.name)
    if (row === undefined || !this.hasBeenParsed(wire)) {
      super.prepare(wire)
      return
    }
    Object.assign(this._result, row)
    this._accumulateRows = true
    super.prepare(this.#known.silent)
  }

  override handleRowDescription(message: unknown): void {
    super.handleRowDescription(message)
    this.#known?.rows.set(this.name, sharedOf(this._result))
  }
}

/** Sends a named statement. An error shows who sent it. */
export function askDescribedOnce(client: pg.ClientBase, config: pg.QueryConfig): Promise<pg.QueryResult> {
  return new Promise<pg.QueryResult>((resolve, reject) => {
    client.query(new DescribedOnce(config, (error, result) => (error ? reject(error) : resolve(result))))
  }).catch((error: Error) => {
    Error.captureStackTrace(error)
    throw error
  })
}

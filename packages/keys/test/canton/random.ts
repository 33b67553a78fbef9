import type { Id, Key, LfCreate, LfFetch, LfNode, LfValue, Model } from './model.ts'

/** Random transactions, the same for the same seed. */
export interface Options {
  readonly scheme: 'V2' | 'V3'
  /** Keep int64 where a double is exact: for opinions that round. */
  readonly doubles?: boolean
}

/** Numbers below a bound, from a seed (mulberry32). */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

const TEXTS = ['', 'hello', 'größer', '💶 and more', '\ufeffwith a mark', 'a\nb', '\u0000', 'x'.repeat(300)]
const PARTIES = ['alice', 'bob', 'charlie', 'david', 'erin'].map((name) => `${name}::1220${'ab'.repeat(32)}`)
const MAX_NODES = 9

/** A transaction with every kind of node and value, well-formed as a participant would prepare it. */
export function randomModel(seed: number, options: Options): Model {
  const random = randomOf(seed)
  return new Maker(random, options).model()
}

class Maker {
  readonly #random: (below: number) => number
  readonly #options: Options
  readonly #nodes: Model['transaction']['nodes'] = []
  readonly #seeds: Model['transaction']['node_seeds'] = []

  constructor(random: (below: number) => number, options: Options) {
    this.#random = random
    this.#options = options
  }

  model(): Model {
    const roots = this.#many(1, 3, () => this.#node(0))
    const metadata: Model['metadata'] = {
      submitter_info: { act_as: this.#parties(1), command_id: `command-${this.#random(1e9)}` },
      synchronizer_id: `global::1220${'cd'.repeat(32)}`,
      mediator_group: this.#random(3),
      transaction_uuid: `${this.#hex(4)}-${this.#hex(2)}-${this.#hex(2)}-${this.#hex(2)}-${this.#hex(6)}`,
      preparation_time: this.#micros(),
      input_contracts: this.#many(0, 2, () => ({
        v1: this.#create(),
        created_at: this.#micros(),
        event_blob: this.#hex(1 + this.#random(40)),
      })),
      ...(this.#maybe() && { min_ledger_effective_time: this.#micros() }),
      ...(this.#maybe() && { max_ledger_effective_time: this.#micros() }),
      ...(this.#maybe() && { max_record_time: this.#micros() }),
    }
    const version = this.#options.scheme === 'V3' ? '2' : '2.1'
    return { transaction: { version, roots, nodes: this.#nodes, node_seeds: this.#seeds }, metadata }
  }

  /** Adds a node, children included. Ids are not in order, since no hash covers them. */
  #node(depth: number): string {
    const id = String(this.#nodes.length * 7 + 3)
    const place: { node_id: string; v1: LfNode } = { node_id: id, v1: { rollback: { children: [] } } }
    this.#nodes.push(place)
    const children = () =>
      depth > 2 || this.#nodes.length > MAX_NODES ? [] : this.#many(0, 3, () => this.#node(depth + 1))
    const kind = this.#random(this.#options.scheme === 'V3' ? 5 : 4)
    if (kind === 0) place.v1 = { rollback: { children: children() } }
    else if (kind === 1) place.v1 = { fetch: this.#fetch() }
    else if (kind === 4) place.v1 = { query_by_key: this.#query() }
    else {
      this.#seeds.push({ node_id: Number(id), seed: this.#hex(32) })
      if (kind === 2) place.v1 = { create: this.#create() }
      else
        place.v1 = {
          exercise: {
            ...this.#fetch(),
            choice_id: this.#pick(['Transfer', 'Accept', 'Archive']),
            chosen_value: this.#value(0),
            consuming: this.#maybe(),
            children: children(),
            ...(this.#maybe() && { exercise_result: this.#value(0) }),
            choice_observers: this.#parties(0),
          },
        }
    }
    return id
  }

  #contract(): Omit<LfCreate, 'argument'> {
    const keyed = this.#options.scheme === 'V3' && this.#maybe()
    return {
      lf_version: keyed ? '2' : '2.1',
      contract_id: `00${this.#hex(32)}${this.#maybe() ? this.#hex(10) : ''}`,
      package_name: this.#pick(['splice-amulet', 'token']),
      template_id: this.#id(),
      signatories: this.#parties(1),
      stakeholders: this.#parties(1),
      ...(keyed && { key: this.#key() }),
    }
  }

  #create(): LfCreate {
    return { ...this.#contract(), argument: this.#value(0) }
  }

  #fetch(): LfFetch {
    const contract = this.#contract()
    return {
      ...contract,
      acting_parties: this.#parties(1),
      ...(this.#maybe() && { interface_id: this.#id() }),
      ...(contract.key !== undefined && { by_key: this.#maybe() }),
    }
  }

  #query() {
    return {
      lf_version: '2',
      package_name: 'token',
      template_id: this.#id(),
      exhaustive: this.#maybe(),
      key: this.#key(),
      result: this.#many(0, 3, () => `00${this.#hex(32)}`),
    }
  }

  #key(): Key {
    return {
      key: { template_id: this.#id(), package_name: 'token', key: this.#value(1), hash: this.#hex(32) },
      maintainers: this.#parties(1),
    }
  }

  #value(depth: number): LfValue {
    const inner = () => this.#value(depth + 1)
    const id = this.#maybe() ? this.#id() : undefined
    const kinds: (() => LfValue)[] = [
      () => ({ unit: {} }),
      () => ({ bool: this.#maybe() }),
      () => ({ int64: this.#int64() }),
      () => ({ date: this.#random(2_932_896 + 719_162) - 719_162 }),
      () => ({ timestamp: (BigInt(this.#micros()) * (this.#maybe() ? -1n : 1n)).toString() }),
      () => ({ numeric: this.#pick(['0.0000000000', '-1.5', '12345678901234567890.1234567890', '7.', '0.00']) }),
      () => ({ party: this.#pick(PARTIES) }),
      () => ({ text: this.#pick(TEXTS) }),
      () => ({ contract_id: `00${this.#hex(32)}` }),
      () => ({ enum: { ...(id && { enum_id: id }), constructor: 'Red' } }),
      () => ({ optional: this.#maybe() ? { value: inner() } : {} }),
      () => ({ list: { elements: this.#many(0, 3, inner) } }),
      () => ({ text_map: { entries: this.#keyed((key) => ({ key, value: inner() })) } }),
      () => ({ gen_map: { entries: this.#keyed((key) => ({ key: { text: key }, value: inner() })) } }),
      () => ({ record: { ...(id && { record_id: id }), fields: this.#keyed((label) => ({ label, value: inner() })) } }),
      () => ({ variant: { ...(id && { variant_id: id }), constructor: 'Some', value: inner() } }),
    ]
    // Only the first ten end.
    return this.#pick(depth > 2 ? kinds.slice(0, 10) : kinds)()
  }

  #int64(): string {
    if (this.#maybe()) return String(this.#random(2000) - 1000)
    const whole = BigInt.asIntN(64, BigInt(`0x${this.#hex(8)}`))
    return (this.#options.doubles ? whole >> 12n : whole).toString()
  }

  #micros = () => (BigInt(this.#random(2 ** 31)) * 1_000_000n + BigInt(this.#random(1_000_000))).toString()
  #maybe = () => this.#random(2) === 1
  #pick = <T>(values: readonly T[]): T => values[this.#random(values.length)] as T
  #hex = (bytes: number) =>
    Array.from({ length: bytes }, () => this.#random(256).toString(16).padStart(2, '0')).join('')
  #many = <T>(least: number, most: number, one: () => T): T[] =>
    Array.from({ length: least + this.#random(most - least + 1) }, one)
  #keyed = <T>(one: (key: string) => T): T[] => ['a', 'b', '__proto__', 'd'].slice(0, this.#random(4)).map(one)
  #parties = (least: number) => PARTIES.filter((_, at) => at < least || this.#random(3) === 0)
  #id = (): Id => ({
    package_id: this.#pick(['ab'.repeat(32), '#token']),
    module_name: this.#pick(['Token', 'Splice.Api.Token.HoldingV1']),
    entity_name: this.#pick(['Holding', 'Outer.Inner']),
  })
}

/** A source of numbers that are the same for the same seed: sample data is to be told about, and told again. */
export interface Dice {
  /** From 0, below `n`, whole. */
  below(n: number): number
  /** One of these. */
  pick<T>(from: readonly T[]): T
  /** Whether something of this probability happens. */
  chance(probability: number): boolean
}

/** Mulberry32: sample data needs no better randomness, and nothing secret comes of it. */
export function createDice(seed: number): Dice {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (n: number) => Math.floor(next() * n)
  return {
    below,
    pick: <T>(from: readonly T[]) => from[below(from.length)] as T,
    chance: (probability) => next() < probability,
  }
}

/** Given and family names that go together. */
const NAMES: readonly { given: readonly string[]; family: readonly string[] }[] = [
  { given: ['Amara', 'Chidi', 'Ngozi', 'Tunde'], family: ['Okafor', 'Adeyemi', 'Eze', 'Balogun'] },
  { given: ['Sofía', 'Mateo', 'Lucía', 'Joaquín'], family: ['García Ruiz', 'Fernández', 'Ibáñez', 'Peña'] },
  { given: ['Yuki', '美咲', 'Haruto', 'Sakura'], family: ['Tanaka', 'Satō', 'Kobayashi', 'Mori'] },
  { given: ['Priya', 'Arjun', 'Ananya', 'Rohan'], family: ['Sharma', 'Iyer', 'Patel', 'Banerjee'] },
  { given: ['Léa', 'Étienne', 'Chloé', 'Théo'], family: ['Dubois', 'Lefèvre', 'Moreau', 'Garnier'] },
  { given: ['Fatima', 'Youssef', 'Layla', 'Omar'], family: ['Al-Masri', 'Haddad', 'Benali', 'Nasser'] },
  { given: ['Wei', 'Mei', '小龙', 'Jing'], family: ['Chen', 'Wang', 'Liu', 'Zhao'] },
  { given: ['Astrid', 'Søren', 'Freja', 'Nils'], family: ['Lindqvist', 'Østergaard', 'Holm', 'Åkesson'] },
  { given: ['Olena', 'Taras', 'Ірина', 'Bohdan'], family: ['Shevchenko', 'Koval', 'Melnyk', 'Bondar'] },
  { given: ['Aroha', 'Tane', 'Mere', 'Wiremu'], family: ['Ngata', 'Parata', 'Walker', 'Tūhoe'] },
  { given: ['Beatriz', 'Thiago', 'Inês', 'João'], family: ['da Silva', 'Carvalho', 'Araújo', 'Nunes'] },
  { given: ['Zeynep', 'Emre', 'Elif', 'Can'], family: ['Yılmaz', 'Demir', 'Şahin', 'Kaya'] },
  { given: ['Thandiwe', 'Sipho', 'Naledi', 'Lwazi'], family: ['Mokoena', 'Dlamini', 'Nkosi', 'van Wyk'] },
  { given: ['Siobhán', 'Cillian', 'Aoife', 'Declan'], family: ["O'Brien", 'Ní Dhomhnaill', 'Byrne', 'Walsh'] },
  { given: ['Minh', 'Linh', 'Thảo', 'Đức'], family: ['Nguyễn', 'Trần', 'Lê', 'Phạm'] },
  { given: ['Noa', 'Eitan', 'Tamar', 'Avi'], family: ['Cohen', 'Mizrahi', 'Friedman', 'Azoulay'] },
]

/** Hosts that belong to nobody (RFC 2606). */
const MAIL_HOSTS = ['example.com', 'example.org', 'example.net']
const PLANS = ['free', 'free', 'free', 'plus', 'plus', 'family']
const COUNTRIES = ['NG', 'ES', 'JP', 'IN', 'FR', 'EG', 'TW', 'SE', 'UA', 'NZ', 'BR', 'TR', 'ZA', 'IE', 'VN', 'IL']

/** Somebody who exists nowhere. */
export interface Person {
  name: string
  email: string
  externalId: string
  metadata: Record<string, string>
}

/** A name in ASCII letters; what has none of them is left out. */
const plain = (name: string) =>
  name
    .normalize('NFD')
    .replace(/ø/g, 'o')
    .replace(/ı/g, 'i')
    .replace(/[đĐ]/g, 'd')
    .replace(/[^A-Za-z]+/g, '')
    .toLowerCase()

/** The `index`-th of an app's people; of one app no two share an email. */
export function makePerson(dice: Dice, index: number): Person {
  const at = dice.below(NAMES.length)
  const { given, family } = NAMES[at] as (typeof NAMES)[number]
  const [first, last] = [dice.pick(given), dice.pick(family)]
  const letters = [plain(first), plain(last)].filter((part) => part !== '').join('.')
  return {
    name: `${first} ${last}`,
    email: `${letters}.${index + 1}@${dice.pick(MAIL_HOSTS)}`,
    externalId: `customer-${1001 + index}`,
    metadata: { plan: dice.pick(PLANS), country: COUNTRIES[at] as string, newsletter: dice.chance(0.4) ? 'yes' : 'no' },
  }
}

const AGENTS = [
  'Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Linux; Android 16; Pixel 10) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Mobile Safari/537.36',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Safari/537.36',
  'Mozilla/5.0 (X11; Linux x86_64; rv:149.0) Gecko/20100101 Firefox/149.0',
]
const DEVICES = ['Phone', 'Pixel', 'Laptop', 'Work computer']

/** What somebody signs in with: the browser's own words, and how its owner calls it. */
export function makeDevice(dice: Dice): { userAgent: string; name: string } {
  const at = dice.below(AGENTS.length)
  return { userAgent: AGENTS[at] as string, name: DEVICES[at] as string }
}

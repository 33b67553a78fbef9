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

/** Given and family names that go together, and the country they come from. */
const NAMES: readonly { country: string; given: readonly string[]; family: readonly string[] }[] = [
  { country: 'NG', given: ['Amara', 'Chidi', 'Ngozi', 'Tunde'], family: ['Okafor', 'Adeyemi', 'Eze', 'Balogun'] },
  {
    country: 'ES',
    given: ['Sofía', 'Mateo', 'Lucía', 'Joaquín'],
    family: ['García Ruiz', 'Fernández', 'Ibáñez', 'Peña'],
  },
  { country: 'JP', given: ['Yuki', '美咲', 'Haruto', 'Sakura'], family: ['Tanaka', 'Satō', 'Kobayashi', 'Mori'] },
  { country: 'IN', given: ['Priya', 'Arjun', 'Ananya', 'Rohan'], family: ['Sharma', 'Iyer', 'Patel', 'Banerjee'] },
  { country: 'FR', given: ['Léa', 'Étienne', 'Chloé', 'Théo'], family: ['Dubois', 'Lefèvre', 'Moreau', 'Garnier'] },
  { country: 'EG', given: ['Fatima', 'Youssef', 'Layla', 'Omar'], family: ['Al-Masri', 'Haddad', 'Benali', 'Nasser'] },
  { country: 'TW', given: ['Wei', 'Mei', '小龙', 'Jing'], family: ['Chen', 'Wang', 'Liu', 'Zhao'] },
  {
    country: 'SE',
    given: ['Astrid', 'Søren', 'Freja', 'Nils'],
    family: ['Lindqvist', 'Østergaard', 'Holm', 'Åkesson'],
  },
  { country: 'UA', given: ['Olena', 'Taras', 'Ірина', 'Bohdan'], family: ['Shevchenko', 'Koval', 'Melnyk', 'Bondar'] },
  { country: 'NZ', given: ['Aroha', 'Tane', 'Mere', 'Wiremu'], family: ['Ngata', 'Parata', 'Walker', 'Tūhoe'] },
  { country: 'BR', given: ['Beatriz', 'Thiago', 'Inês', 'João'], family: ['da Silva', 'Carvalho', 'Araújo', 'Nunes'] },
  { country: 'TR', given: ['Zeynep', 'Emre', 'Elif', 'Can'], family: ['Yılmaz', 'Demir', 'Şahin', 'Kaya'] },
  {
    country: 'ZA',
    given: ['Thandiwe', 'Sipho', 'Naledi', 'Lwazi'],
    family: ['Mokoena', 'Dlamini', 'Nkosi', 'van Wyk'],
  },
  {
    country: 'IE',
    given: ['Siobhán', 'Cillian', 'Aoife', 'Declan'],
    family: ["O'Brien", 'Ní Dhomhnaill', 'Byrne', 'Walsh'],
  },
  { country: 'VN', given: ['Minh', 'Linh', 'Thảo', 'Đức'], family: ['Nguyễn', 'Trần', 'Lê', 'Phạm'] },
  { country: 'IL', given: ['Noa', 'Eitan', 'Tamar', 'Avi'], family: ['Cohen', 'Mizrahi', 'Friedman', 'Azoulay'] },
]

/** Hosts that belong to nobody (RFC 2606). */
const MAIL_HOSTS = ['example.com', 'example.org', 'example.net']
const PLANS = ['free', 'free', 'free', 'plus', 'plus', 'family']

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
  const { country, given, family } = dice.pick(NAMES)
  const [first, last] = [dice.pick(given), dice.pick(family)]
  const letters = [plain(first), plain(last)].filter((part) => part !== '').join('.')
  return {
    name: `${first} ${last}`,
    email: `${letters}.${index + 1}@${dice.pick(MAIL_HOSTS)}`,
    externalId: `customer-${1001 + index}`,
    metadata: { plan: dice.pick(PLANS), country, newsletter: dice.chance(0.4) ? 'yes' : 'no' },
  }
}

/** What people sign in with: the browser's user agent, and their name for the device. */
export const DEVICES = [
  {
    name: 'Phone',
    userAgent:
      'Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1',
  },
  {
    name: 'Pixel',
    userAgent:
      'Mozilla/5.0 (Linux; Android 16; Pixel 10) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Mobile Safari/537.36',
  },
  {
    name: 'Laptop',
    userAgent:
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Safari/537.36',
  },
  {
    name: 'Work computer',
    userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:149.0) Gecko/20100101 Firefox/149.0',
  },
]

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

/** The lines of a text, split at its bars. */
const rowsOf = (table: string) =>
  table
    .trim()
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))

/** A country, and the given and family names that go together there. */
const NAMES = rowsOf(`
  NG | Amara, Chidi, Ngozi, Tunde | Okafor, Adeyemi, Eze, Balogun
  ES | Sofía, Mateo, Lucía, Joaquín | García Ruiz, Fernández, Ibáñez, Peña
  JP | Yuki, 美咲, Haruto, Sakura | Tanaka, Satō, Kobayashi, Mori
  IN | Priya, Arjun, Ananya, Rohan | Sharma, Iyer, Patel, Banerjee
  FR | Léa, Étienne, Chloé, Théo | Dubois, Lefèvre, Moreau, Garnier
  EG | Fatima, Youssef, Layla, Omar | Al-Masri, Haddad, Benali, Nasser
  TW | Wei, Mei, 小龙, Jing | Chen, Wang, Liu, Zhao
  SE | Astrid, Søren, Freja, Nils | Lindqvist, Østergaard, Holm, Åkesson
  UA | Olena, Taras, Ірина, Bohdan | Shevchenko, Koval, Melnyk, Bondar
  NZ | Aroha, Tane, Mere, Wiremu | Ngata, Parata, Walker, Tūhoe
  BR | Beatriz, Thiago, Inês, João | da Silva, Carvalho, Araújo, Nunes
  TR | Zeynep, Emre, Elif, Can | Yılmaz, Demir, Şahin, Kaya
  ZA | Thandiwe, Sipho, Naledi, Lwazi | Mokoena, Dlamini, Nkosi, van Wyk
  IE | Siobhán, Cillian, Aoife, Declan | O'Brien, Ní Dhomhnaill, Byrne, Walsh
  VN | Minh, Linh, Thảo, Đức | Nguyễn, Trần, Lê, Phạm
  IL | Noa, Eitan, Tamar, Avi | Cohen, Mizrahi, Friedman, Azoulay
`).map(([country = '', given = '', family = '']) => ({ country, given: given.split(', '), family: family.split(', ') }))

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

/** What people sign in with: their name for the device, and the browser's user agent. */
export const DEVICES = rowsOf(`
  Phone | Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1
  Pixel | Mozilla/5.0 (Linux; Android 16; Pixel 10) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Mobile Safari/537.36
  Laptop | Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Safari/537.36
  Work computer | Mozilla/5.0 (X11; Linux x86_64; rv:149.0) Gecko/20100101 Firefox/149.0
`).map(([name = '', userAgent = '']) => ({ name, userAgent }))

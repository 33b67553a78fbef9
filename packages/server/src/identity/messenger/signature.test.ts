import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { initDataOf, miniAppHash, newShop, type Shop, widget, widgetHash } from './messenger.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const USER = '{"id":5,"first_name":"Ada"}'

/** One 401 for whatever is wrong, and nobody signed in. */
async function expectForged(shop: Shop, bodies: [what: string, body: object][]): Promise<void> {
  const texts = new Set<string>()
  for (const [what, body] of bodies) {
    const answer = await shop.verify(body)
    expectError(answer, 401, 'messenger_signature_invalid', what)
    texts.add(answer.text)
  }
  expect(texts.size).toBe(1)
  expect((await shop.tenant.get('/users')).body.total).toBe(0)
}

describe('published vectors, at the time they were signed', () => {
  /** The service at another time. */
  async function at<T>(seconds: number, body: () => Promise<T>): Promise<T> {
    const ms = seconds * 1000 - service.deps.now().getTime()
    service.advance(ms)
    try {
      return await body()
    } finally {
      service.advance(-ms)
    }
  }

  const vectors: [source: string, token: string, seconds: number, name: string, body: object][] = [
    [
      'login widget (aiogram, tests/test_utils/test_auth_widget.py)',
      '123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11',
      1_565_810_688,
      'John Smith',
      {
        id: '42',
        first_name: 'John',
        last_name: 'Smith',
        username: 'username',
        photo_url: 'https://t.me/i/userpic/320/picname.jpg',
        auth_date: '1565810688',
        hash: 'c303db2b5a06fe41d23a9b14f7c545cfc11dcc7473c07c9c5034ae60062461ce',
      },
    ],
    [
      'Mini App (docs.telegram-mini-apps.com, init data)',
      '5768337691:AAH5YkoiEuPk8-FZa32hStHTqXiLPtAEhx8',
      1_662_771_648,
      'Vladislav Kibenko',
      {
        initData:
          'query_id=AAHdF6IQAAAAAN0XohDhrOrc&user=%7B%22id%22%3A279058397%2C%22first_name%22%3A%22Vladislav%22%2C%22last_name%22%3A%22Kibenko%22%2C%22username%22%3A%22vdkfrost%22%2C%22language_code%22%3A%22ru%22%2C%22is_premium%22%3Atrue%7D&auth_date=1662771648&hash=c501b71e775f74ce10e377dea85a7ea24ecd640b223ea86dfe453e0eaed2e2b2',
      },
    ],
    [
      'Mini App with a signature for third parties (docs.telegram-mini-apps.com, init data)',
      '7342037359:AAHI25ES9xCOMPokpYoz-p8XVrZUdygo2J4',
      1_733_509_682,
      'Vladislav + - ? / Kibenko',
      {
        initData:
          'user=%7B%22id%22%3A279058397%2C%22first_name%22%3A%22Vladislav%20%2B%20-%20%3F%20%5C%2F%22%2C%22last_name%22%3A%22Kibenko%22%2C%22username%22%3A%22vdkfrost%22%2C%22language_code%22%3A%22ru%22%2C%22is_premium%22%3Atrue%2C%22allows_write_to_pm%22%3Atrue%2C%22photo_url%22%3A%22https%3A%5C%2F%5C%2Ft.me%5C%2Fi%5C%2Fuserpic%5C%2F320%5C%2F4FPEE4tmP3ATHa57u6MqTDih13LTOiMoKoLDRG4PnSA.svg%22%7D&chat_instance=8134722200314281151&chat_type=private&auth_date=1733509682&signature=TYJxVcisqbWjtodPepiJ6ghziUL94-KNpG8Pau-X7oNNLNBM72APCpi_RKiUlBvcqo5L-LAxIc3dnTzcZX_PDg&hash=a433d8f9847bd6addcc563bff7cc82c89e97ea0d90c11fe5729cae6796a36d73',
      },
    ],
  ]

  test.each(vectors)('%s', async (_, token, seconds, name, body) => {
    const shop = await newShop(service, token)
    await expectForged(shop, [['years later', body]])
    const answer = await at(seconds + 1, () => shop.verify(body))
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.data.user.name).toBe(name)
  })
})

describe('a signature', () => {
  test('holds for the very fields that were signed, and for this bot alone', async () => {
    const shop = await newShop(service)
    const other = await newShop(service)
    const fields = { id: 5, first_name: 'Ada', last_name: 'L', username: 'ada', auth_date: shop.date() }
    const good = widget(shop.token, fields)
    const { last_name: _, ...fewer } = good
    await expectForged(shop, [
      ['another id', { ...good, id: 6 }],
      ['another name', { ...good, first_name: 'Eve' }],
      ['a fresher date', { ...good, auth_date: fields.auth_date + 1 }],
      ['a field less', fewer],
      ['a field more', { ...good, photo_url: 'https://t.me/x' }],
      ['a field more that nobody knows', { ...good, is_premium: 'true' }],
      ['an empty field more', { ...good, photo_url: '' }],
      ['a space more', { ...good, first_name: 'Ada ' }],
      ['values swapped', { ...good, first_name: 'L', last_name: 'Ada' }],
      ['a cut hash', { ...good, hash: good.hash.slice(0, 63) }],
      ['a longer hash', { ...good, hash: `${good.hash}0` }],
      ['no hexadecimal hash', { ...good, hash: 'z'.repeat(64) }],
      ['an upper-case hash', { ...good, hash: good.hash.toUpperCase() }],
      ['a hash of zeros', { ...good, hash: '0'.repeat(64) }],
      ["another tenant's bot", widget(other.token, fields)],
      ['the empty token', widget('', fields)],
      ["the bot's id for a token", widget(shop.botId, fields)],
      ['a Mini App hash', { ...fields, hash: miniAppHash(shop.token, fields) }],
      ['a bot', widget(shop.token, { ...fields, is_bot: 'true' })],
    ])
    expect((await shop.verify(good)).status).toBe(200)
  })

  test("of a Mini App holds for its very fields, and the widget's does not pass for it", async () => {
    const shop = await newShop(service)
    const other = await newShop(service)
    const fields = { auth_date: shop.date(), query_id: 'AAHd', user: USER, signature: 'TYJx' }
    const initData = initDataOf(shop.token, fields)
    const asWidget = new URLSearchParams({
      ...fields,
      auth_date: String(fields.auth_date),
      hash: widgetHash(shop.token, fields),
    })
    const bot = JSON.stringify({ id: 5, first_name: 'Ada', is_bot: true })
    await expectForged(shop, [
      ['another id', { initData: initData.replace('%22id%22%3A5', '%22id%22%3A6') }],
      ['another signature field', { initData: initData.replace('TYJx', 'TYJy') }],
      ['no signature field', { initData: initData.replace('&signature=TYJx', '') }],
      ['a field more', { initData: `${initData}&start_param=x` }],
      ['a hash more in other case', { initData: `${initData}&Hash=x` }],
      [
        'an upper-case hash',
        { initData: initData.replace(/hash=(\w+)/, (_, hash: string) => `hash=${hash.toUpperCase()}`) },
      ],
      ["another tenant's bot", { initData: initDataOf(other.token, fields) }],
      ["the widget's hash", { initData: asWidget.toString() }],
      ['a bot', { initData: initDataOf(shop.token, { ...fields, user: bot }) }],
    ])
    expect((await shop.verify({ initData })).status).toBe(200)
  })

  test('covers fields that Telegram may add one day, be they texts or numbers', async () => {
    const shop = await newShop(service)
    const fields = { id: 5, first_name: 'Ada', auth_date: shop.date(), is_premium: 'true', level: 7, a1: 'x', a: 'y' }
    const answer = await shop.verify(widget(shop.token, fields))
    expect(answer.status, answer.text).toBe(200)
  })
})

describe('time', () => {
  test('a payload is accepted for 24 hours, and from a clock that is a minute ahead', async () => {
    const shop = await newShop(service)
    const body = (secondsAgo: number, id: number) =>
      widget(shop.token, { id, first_name: 'A', auth_date: shop.date(secondsAgo) })
    const mini = (secondsAgo: number) => ({
      initData: initDataOf(shop.token, { auth_date: shop.date(secondsAgo), user: USER }),
    })
    await expectForged(shop, [
      ['a day and a second old', body(86_401, 1)],
      ['years old', body(1e9, 1)],
      ['of 1970', widget(shop.token, { id: 1, first_name: 'A', auth_date: 0 })],
      ['two minutes ahead', body(-120, 1)],
      ['in milliseconds', widget(shop.token, { id: 1, first_name: 'A', auth_date: shop.date() * 1000 })],
      ['a Mini App, a day and a second old', mini(86_401)],
      ['a Mini App, two minutes ahead', mini(-120)],
    ])
    for (const [i, secondsAgo] of [86_390, 0, -59].entries()) {
      expect((await shop.verify(body(secondsAgo, i + 1))).status, `${secondsAgo}`).toBe(200)
      expect((await shop.verify(mini(secondsAgo))).status, `${secondsAgo}`).toBe(200)
    }
  })

  test('a payload is used once, of any number of attempts at once and however it is written down', async () => {
    const shop = await newShop(service)
    const fields = { id: 5, first_name: 'Ada', username: 'ada', auth_date: shop.date() }
    const body = widget(shop.token, fields)
    const { id, hash, ...rest } = body
    const answers = await Promise.all(Array.from({ length: 20 }, () => shop.verify(body)))
    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1)
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 401, 'messenger_signature_invalid')
    const again: object[] = [
      body,
      { hash, ...rest, id },
      { ...body, id: '5', auth_date: String(fields.auth_date) },
      { ...body, hash: hash.toUpperCase() },
      { ...body, appId: shop.tenant.appId },
    ]
    for (const one of again) expectError(await shop.verify(one), 401, 'messenger_signature_invalid')
    const initData = initDataOf(shop.token, { auth_date: shop.date(), user: USER, query_id: 'a b' })
    expect((await shop.verify({ initData })).status).toBe(200)
    const spelt = [
      initData,
      initData.replace('a+b', 'a%20b'),
      initData.split('&').reverse().join('&'),
      initData.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
      initData.replace('query_id', 'quer%79_id'),
      `&${initData}&`,
    ]
    expect(new Set(spelt).size).toBe(spelt.length)
    for (const one of spelt) expectError(await shop.verify({ initData: one }), 401, 'messenger_signature_invalid')
    const sessions = await service.sql('select 1 from sessions where tenant_id = $1', [shop.tenant.tenantId])
    expect(sessions).toHaveLength(2)
  })

  test('a server that repeats its call under one Idempotency-Key gets the same session', async () => {
    const shop = await newShop(service)
    const body = widget(shop.token, { id: 5, first_name: 'Ada', auth_date: shop.date() })
    const options = { headers: { 'idempotency-key': 'sign-in-1' } }
    const [first, second] = [await shop.verify(body, options), await shop.verify(body, options)]
    expect(first.status).toBe(200)
    expect(second.text).toBe(first.text)
  })
})

describe('a payload that is none', () => {
  test.each<[string, unknown]>([
    ['null', null],
    ['empty', ''],
    ['an array', ['0'.repeat(64)]],
    ['an object', {}],
    ['a number', 0],
    ['true', true],
    ['endless', '0'.repeat(10_000)],
  ])('hash: %s is a 400 that names it', async (_, hash) => {
    const shop = await newShop(service)
    const body = { id: 5, first_name: 'Ada', auth_date: shop.date(), hash }
    const details = expectRefusal(await shop.verify(body), 'validation_failed')
    expect(details.map((detail) => detail.field)).toEqual(['hash'])
  })

  test('what is missing is named, all of it', async () => {
    const shop = await newShop(service)
    const good = widget(shop.token, { id: 5, first_name: 'Ada', auth_date: shop.date() })
    for (const name of ['id', 'auth_date', 'hash']) {
      const { [name]: _, ...body } = good as Record<string, unknown>
      expect(expectRefusal(await shop.verify(body), 'validation_failed').map(({ field }) => field)).toEqual([name])
    }
    for (const body of [{}, { appId: shop.tenant.appId }]) {
      const details = expectRefusal(await shop.verify(body), 'validation_failed')
      expect(details.map(({ field }) => field)).toEqual(['id', 'auth_date', 'hash'])
    }
    expect(expectRefusal(await shop.verify({ surprise: 1 }), 'validation_failed')).toContainEqual(
      expect.objectContaining({ field: 'surprise', code: 'unknown_field' }),
    )
  })

  test('a name with a line feed cannot pass for more fields', async () => {
    const shop = await newShop(service)
    // Signed for account 5, whose owner would be 7: the check string is the same.
    const fields = { auth_date: shop.date(), first_name: 'Eve\nid=5', username: 'eve' }
    const hash = widgetHash(shop.token, fields)
    const split = { auth_date: fields.auth_date, first_name: 'Eve', id: 5, username: 'eve', hash }
    const merged = { ...fields, id: 7, hash: widgetHash(shop.token, { ...fields, id: 7 }) }
    expect(expectRefusal(await shop.verify(merged), 'validation_failed')[0].field).toBe('first_name')
    const date = { id: 5, hash: '0'.repeat(64), auth_date: `${shop.date()}\nfirst_name=Eve` }
    expect(expectRefusal(await shop.verify(date), 'validation_failed')[0].field).toBe('auth_date')
    for (const control of ['\n', '\r', '\t', '\u0001', '\u007f', '\u0085']) {
      for (const field of ['first_name', 'last_name', 'username', 'photo_url', 'added_later']) {
        const body = { ...split, [field]: `a${control}b` }
        const details = expectRefusal(await shop.verify(body), 'validation_failed', `${field} ${escape(control)}`)
        expect(details.map((detail) => detail.field)).toContain(field)
      }
    }
    for (const name of ['first_name=Eve\nid', 'a=b', 'a b', '', 'é', 'a'.repeat(65)]) {
      const details = expectRefusal(await shop.verify({ ...split, [name]: 'x' }), 'validation_failed', name)
      expect(details[0]).toMatchObject({ field: name, code: 'unknown_field' })
    }
    expect((await shop.tenant.get('/users')).body.total).toBe(0)
  })

  test('values of other types, ids that are none, too many fields', async () => {
    const shop = await newShop(service)
    const good = { id: 5, first_name: 'Ada', auth_date: shop.date(), hash: '0'.repeat(64) }
    const wrong: [string, unknown][] = [
      ...[0, -1, 1.5, '', '0', '05', '-1', '1e3', ' 5', '٥', '1'.repeat(21), null, [5], {}].map(
        (id): [string, unknown] => ['id', id],
      ),
      ...[-1, 1.5, '', 'now', '1e9', '1'.repeat(13), null, [1]].map((date): [string, unknown] => ['auth_date', date]),
      ...[null, 7, {}, 'x'.repeat(2_049)].map((name): [string, unknown] => ['first_name', name]),
      ...[null, true, 1.5, [], { a: 1 }].map((value): [string, unknown] => ['added_later', value]),
      ...[null, '', 7, [], 'x'.repeat(16_385)].map((text): [string, unknown] => ['initData', text]),
      ['appId', 7],
    ]
    for (const [field, value] of wrong) {
      const what = `${field}: ${JSON.stringify(value)?.slice(0, 40)}`
      const details = expectRefusal(await shop.verify({ ...good, [field]: value }), 'validation_failed', what)
      expect(
        details.map((detail) => detail.field),
        what,
      ).toContain(field)
    }
    const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`f${i}`, 'x']))
    expectRefusal(await shop.verify({ ...good, ...many }), 'validation_failed')
    expectRefusal(await shop.verify({ ...good, initData: 'a=b' }), 'validation_failed')
  })

  test('initData that is no query string, says something twice, or lacks what is needed', async () => {
    const shop = await newShop(service)
    const fields = { auth_date: shop.date(), user: USER }
    const good = initDataOf(shop.token, fields)
    const signed = (changed: Record<string, string | number>) => initDataOf(shop.token, { ...fields, ...changed })
    const wrong: [string, string][] = [
      ['no query string', 'hello'],
      ['broken encoding', `${good}&a=%zz`],
      ['invalid UTF-8', `${good}&a=%ff`],
      ['NUL', `${good}&a=%00`],
      ['a name twice', `${good}&user=%7B%22id%22%3A6%7D`],
      ['a name twice, once encoded', `${good}&us%65r=%7B%22id%22%3A6%7D`],
      ['a hash twice', `${good}&hash=${'0'.repeat(64)}`],
      ['no hash', good.replace(/&hash=\w+/, '')],
      ['an empty hash', good.replace(/hash=\w+/, 'hash=')],
      ['no date', initDataOf(shop.token, { user: USER })],
      ['no number for a date', signed({ auth_date: 'now' })],
      ['no user', initDataOf(shop.token, { auth_date: shop.date() })],
      ['a line feed in a value', signed({ query_id: 'a\nuser={"id":6}' })],
      ['a line feed in a name', signed({ 'a\nuser': '{"id":6}' })],
      ['an equals sign in a name', `${good}&a%3Db=c`],
      ...['', 'null', '5', '[]', '"x"', '{', '{}', '{"id":null}', '{"id":0}', '{"id":-5}', '{"id":1.5}'].map(
        (user): [string, string] => [`user ${user}`, signed({ user })],
      ),
      ...['{"id":"x"}', '{"id":[5]}', '{"id":1e400}', '{"id":123456789012345678901}', '{"id":9e20}'].map(
        (user): [string, string] => [`user ${user}`, signed({ user })],
      ),
    ]
    for (const [what, initData] of wrong) {
      const details = expectRefusal(await shop.verify({ initData }), 'validation_failed', what)
      expect(
        details.map((detail) => detail.field),
        what,
      ).toEqual(['initData'])
    }
    const beside = expectRefusal(await shop.verify({ initData: good, id: 5 }), 'validation_failed')
    expect(beside).toMatchObject([{ field: 'id', code: 'unknown_field' }])
    expect((await shop.tenant.get('/users')).body.total).toBe(0)
    expect((await shop.verify({ initData: good })).status).toBe(200)
  })
})

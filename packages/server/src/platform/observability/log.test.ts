import { expect, test } from 'vitest'
import { openTerminalLog } from './log.ts'

function written(level: string, write: (log: ReturnType<typeof openTerminalLog>['log']) => void): string[] {
  const lines: string[] = []
  const { log } = openTerminalLog(level, (line) => lines.push(line))
  write(log)
  return lines
}

test('a terminal shows a line with its time, level and fields, and requests only at debug', () => {
  const all = (level: string) =>
    written(level, (log) => {
      log.info({ route: '/v1/users', status: 200 }, 'request')
      log.warn({ pool: 'api', waiting: 3 }, 'requests wait for connections')
    })
  expect(all('info')).toEqual([
    expect.stringMatching(/^\d\d:\d\d:\d\d warn {2}requests wait for connections pool=api waiting=3$/),
  ])
  expect(all('debug')[0]).toMatch(/ info {2}request route=\/v1\/users status=200$/)
})

test('a warning on a terminal names its causes; their stacks are for errors and for debug', () => {
  const err = new Error('timeout', { cause: new Error('connection lost') })
  const line = (level: string, severity: 'warn' | 'error') => written(level, (log) => log[severity]({ err }, 'away'))[0]
  expect(line('info', 'warn')).toMatch(/ away\n {2}Error: timeout\n {2}caused by: Error: connection lost$/)
  expect(line('info', 'error')).toMatch(/Error: timeout\n +at /)
  expect(line('debug', 'warn')).toMatch(/Error: timeout\n +at /)
})

test('what an error quotes cannot command the terminal, and looks like no secret', () => {
  const [line = ''] = written('info', (log) =>
    log.error({ err: new Error('no user \u001b[2J\u009b2J with hk_sk_0123456789abcdef') }, 'a call failed'),
  )
  expect(line).toContain('no user \\u001b[2J\\u009b2J with [redacted]')
})

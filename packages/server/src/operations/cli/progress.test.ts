import { expect, test } from 'vitest'
import { createProgress } from './progress.ts'

function shown(terminal: boolean) {
  const [lines, drawn]: [string[], string[]] = [[], []]
  const err = (line: string) => void lines.push(line)
  const progress = createProgress(terminal ? { err, redraw: (text) => void drawn.push(text) } : { err })
  return { progress, lines, drawn }
}

test('on a terminal a bar is drawn again, and its last state stays as a line', () => {
  const { progress, lines, drawn } = shown(true)
  progress.begin('Working', 200)
  expect(drawn).toEqual([`Working [${'-'.repeat(30)}] 0 %, 0 of 200`])
  for (let at = 0; at < 199; at += 1) progress.add(1)
  expect(drawn.length).toBeLessThan(20)
  progress.end()
  expect(drawn.at(-1)).toBe('')
  expect(lines).toEqual([`Working [${'#'.repeat(29)}-] 99 %, 199 of 200`])
})

test('elsewhere a stage is a line at its beginning and one at its end, however often it moves', () => {
  const { progress, lines } = shown(false)
  progress.begin('Waiting')
  progress.begin('Working', 3)
  for (let at = 0; at < 5; at += 1) progress.add(1)
  progress.begin('Reading', null)
  progress.add(7)
  progress.end()
  progress.end()
  expect(lines).toEqual(['Waiting', 'Working: 0 %, 0 of 3', 'Working: 100 %, 5 of 3', 'Reading', 'Reading: 7'])
})

import type { Terminal } from './command.ts'

/** Shows the progress of long work on standard error. */
export interface Progress {
  /** Begins a stage and ends the one before. `total` is null when it is not known. */
  begin(what: string, total?: number | null): void
  /** Adds to what is done of the stage. */
  add(count: number): void
  /** Ends the last stage; its line stays. */
  end(): void
}

const REDRAW_MS = 100
/** Without a terminal: a log must not fill with progress lines. */
const LINE_MS = 5_000
const BAR_CHARS = 30

function describe(what: string, done: number, total: number | null, bar: boolean): string {
  if (total === null || total === 0) return done === 0 ? what : `${what}: ${done}`
  const part = Math.min(1, done / total)
  const filled = Math.floor(part * BAR_CHARS)
  const drawn = bar ? ` [${'#'.repeat(filled)}${'-'.repeat(BAR_CHARS - filled)}]` : ':'
  return `${what}${drawn} ${Math.floor(part * 100)} %, ${done} of ${total}`
}

/** On a terminal, a bar that is redrawn; elsewhere, a line at the beginning, every five seconds and at the end. */
export function createProgress({ err, redraw }: Pick<Terminal, 'err' | 'redraw'>): Progress {
  let stage: { what: string; done: number; total: number | null } | undefined
  let shownAt = 0
  let shown = ''

  function show(): void {
    if (stage === undefined) return
    shownAt = performance.now()
    const text = describe(stage.what, stage.done, stage.total, redraw !== undefined)
    if (redraw !== undefined) redraw(text)
    else if (text !== shown) err(text)
    shown = text
  }

  function end(): void {
    if (stage === undefined) return
    show()
    stage = undefined
    if (redraw === undefined) return
    redraw('')
    err(shown)
  }

  return {
    begin(what, total = null) {
      end()
      stage = { what, done: 0, total }
      show()
    },
    add(count) {
      if (stage === undefined) return
      stage.done += count
      if (performance.now() - shownAt >= (redraw === undefined ? LINE_MS : REDRAW_MS)) show()
    },
    end,
  }
}

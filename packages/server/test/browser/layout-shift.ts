import type { Page } from 'playwright-core'

/** The sum of all layout shifts since the page was opened: 0.1 and more is noticed by people (https://web.dev/articles/cls). */
export const layoutShift = (page: Page): Promise<number> =>
  page.evaluate<number>(`new Promise((resolve) => {
    const sum = (list) => list.getEntries().reduce((total, { value }) => total + value, 0)
    new PerformanceObserver((list) => resolve(sum(list))).observe({ type: 'layout-shift', buffered: true })
    // Nothing is reported if nothing has moved.
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(0)))
  })`)

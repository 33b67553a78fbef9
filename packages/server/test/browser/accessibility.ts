import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** What axe (Deque's accessibility engine) is asked: every rule, or only whether colours contrast enough. */
export type Rules = 'all' | 'colours'

/** What axe finds wrong with the page: the rule, and the HTML of the elements that break it. */
export async function violationsOf(page: Page, rules: Rules = 'all'): Promise<string[]> {
  // The source is large: a document that has it keeps it.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source)
  const options: axe.RunOptions = {
    resultTypes: ['violations'],
    ...(rules === 'colours' ? { runOnly: ['color-contrast'] } : {}),
  }
  const { violations } = await page.evaluate<axe.AxeResults>(`axe.run(document, ${JSON.stringify(options)})`)
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`)
}

import { type EmailPurpose, isNotice } from '../schema.ts'

/** What may stand in a template as `{{name}}`. */
export type Placeholder = 'appName' | 'code' | 'link' | 'minutes' | 'time' | 'warning'

/** The placeholders of an email of one kind: those that it can have, and those without which it is refused. */
export interface PlaceholderRules {
  allowed: readonly Placeholder[]
  required: readonly Placeholder[]
}

const CODE: readonly Placeholder[] = ['appName', 'code', 'link', 'minutes', 'warning']
const PENDING: PlaceholderRules = { allowed: ['appName', 'link', 'time', 'warning'], required: ['link', 'warning'] }

/**
 * The rules of each kind. An email about a recovery or a change of address must say how to stop it, so no template can leave out the
 * link that stops it, nor the warning, whose words are Halfkey's.
 */
export const RULES: Readonly<Record<EmailPurpose, PlaceholderRules>> = {
  sign_in: { allowed: CODE, required: ['code'] },
  link: { allowed: CODE, required: ['code'] },
  change: { allowed: CODE, required: ['code'] },
  change_current: { allowed: CODE, required: ['code', 'warning'] },
  recovery: { allowed: CODE, required: ['code', 'warning'] },
  recovery_requested: PENDING,
  recovery_reminder: PENDING,
  recovery_completed: { allowed: ['appName', 'warning'], required: ['warning'] },
}

/** Whether an email of this kind may come without a link, so that the words around it stand in a section. */
export const hasLinkSection = (purpose: EmailPurpose): boolean => !isNotice(purpose)

const NAMED = /\{\{(\w+)\}\}/g
const SECTION = /\{\{#link\}\}([\s\S]*?)\{\{\/link\}\}/g
/** A tag of a section that is alone in its line takes the line with it, as in Mustache. */
const ALONE = /^[ \t]*(\{\{[#/]link\}\})[ \t]*\n/gm

/** A template without the tags of its sections: with what stands between them, or without. */
export const withSections = (source: string, hasLink: boolean): string =>
  source
    .replace(ALONE, '$1')
    .replace(SECTION, hasLink ? '$1' : '')
    .replace(/\n{3,}/g, '\n\n')

/** A template with its values, each as it is. What stands in a value is no placeholder. */
export const fill = (source: string, values: Readonly<Record<string, string>>): string =>
  source.replace(NAMED, (whole, name: string) => (Object.hasOwn(values, name) ? (values[name] as string) : whole))

/** The names of all placeholders in a text. */
export const namesIn = (source: string): string[] => [...source.matchAll(NAMED)].map(([, name]) => name as string)

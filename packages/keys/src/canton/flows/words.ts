import type { Json } from '../json.ts'
import { type CreateView, type NodeView, nodesOf, type PreparedView } from '../view.ts'

/** Characters that nobody sees: they break lines, or turn the text around. */
const UNSEEN = /[\p{Cc}\p{Cf}\u2028\u2029]/gu
/** By code unit, as JSON escapes them. */
const escapeOf = (seen: string) =>
  seen.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** As JSON: texts have quotes, so that none can be taken for a part of the sentence. */
const quoted = (value: Json): string => JSON.stringify(value).replace(UNSEEN, escapeOf)

/** A name of the language as it is, and anything else as a text. */
const named = (name: string) => (/^[\w.:$'#-]+$/.test(name) ? name : quoted(name))

/** `Main.Coin:Coin` of `<package>:Main.Coin:Coin`: what a person can tell templates apart by. */
const nameOf = (templateId: string) => named(templateId.slice(templateId.indexOf(':') + 1))

const fieldWords = (value: Json): string =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.entries(value)
        .map(([name, each]) => `${named(name)}: ${quoted(each)}`)
        .join(', ')
    : quoted(value)

function createdWords({ templateId, arguments: made }: CreateView): string {
  return `Creates a contract ${nameOf(templateId)} (${fieldWords(made)}).`
}

function nodeWords(node: NodeView, contents: ReadonlyMap<string, Json>): string {
  switch (node.kind) {
    case 'create':
      return createdWords(node)
    case 'exercise': {
      const on = nameOf(node.interfaceId ?? node.templateId)
      const held = contents.get(node.contractId)
      const has = held === undefined ? '' : ` It has ${fieldWords(held)}.`
      const isOver = node.consuming ? ' This uses the contract up.' : ''
      return `Exercises ${named(node.choice)} on a contract ${on} (${fieldWords(node.arguments)}).${has}${isOver}`
    }
    case 'fetch':
      return `Reads a contract ${nameOf(node.templateId)}.`
    case 'rollback':
      return 'Undoes what follows.'
    case 'query':
      return `Looks contracts ${nameOf(node.templateId)} up by a key.`
  }
}

/**
 * All that a transaction does, a sentence for each node, in the order in which it happens. Show them as plain text: names and values
 * in them were chosen by others. Values are JSON, and characters that nobody sees are escaped.
 */
export function wordsOf({ roots, inputs }: PreparedView): string[] {
  const contents = new Map(inputs.map(({ contractId, arguments: held }) => [contractId, held]))
  return [...nodesOf(roots)].map((node) => nodeWords(node, contents))
}

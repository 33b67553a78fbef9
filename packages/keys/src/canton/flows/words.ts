import type { Json } from '../json.ts'
import { type CreateView, type NodeView, nodesOf, type PreparedView } from '../view.ts'

/** `Main.Coin:Coin` of `<package>:Main.Coin:Coin`: what a person can tell templates apart by. */
const nameOf = (templateId: string) => templateId.slice(templateId.indexOf(':') + 1)

function valueWords(value: Json): string {
  if (typeof value === 'string') return value
  return JSON.stringify(value)
}

const fieldWords = (value: Json): string =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.entries(value)
        .map(([name, each]) => `${name}: ${valueWords(each)}`)
        .join(', ')
    : valueWords(value)

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
      return `Exercises ${node.choice} on a contract ${on} (${fieldWords(node.arguments)}).${has}${isOver}`
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
 * in them were chosen by others.
 */
export function wordsOf({ roots, inputs }: PreparedView): string[] {
  const contents = new Map(inputs.map(({ contractId, arguments: held }) => [contractId, held]))
  return [...nodesOf(roots)].map((node) => nodeWords(node, contents))
}

import { listOf, type Template, textOf } from './template.ts'

/** A text that its author signs and others may read. */
export const noteTemplate: Template = {
  templateId: 'Note:Note',
  definition: 'built-in/1',
  fields: {
    author: { type: 'party' },
    text: { type: 'text' },
    readers: { type: 'parties', optional: true },
  },
  signatories: (contract) => [textOf(contract, 'author')],
  observers: (contract) => listOf(contract, 'readers'),
  choices: new Map([
    [
      'Archive',
      {
        fields: {},
        consuming: true,
        controllers: (contract) => [textOf(contract, 'author')],
        consequences: [],
        run: ({ arguments: given }) => ({ arguments: given, creates: [] }),
      },
    ],
  ]),
}

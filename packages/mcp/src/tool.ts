import type { CallToolResult, McpServer, ToolAnnotations } from '@modelcontextprotocol/server'
import type { z } from 'zod'

/** Characters that are not shown, or turn text around: they could hide words from a person who reads along. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Variation_Selector}]/gu

/** JSON whose texts stay between their quotation marks, with everything unseen written as an escape. */
function asText(value: object): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value).replace(UNSEEN, (character) =>
    Array.from({ length: character.length }, (_, at) => escaped(character.charAt(at))).join(''),
  )
}

/** What a tool says of itself, and does. */
export interface Tool<In extends z.ZodObject, Out extends z.ZodObject> {
  name: string
  title: string
  description: string
  input: In
  output: Out
  annotations: ToolAnnotations
  run(input: z.output<In>): Promise<{ result: z.input<Out>; isError: boolean }>
}

export interface ToolContext {
  /** Takes secrets out of a text. */
  scrub(text: string): string
  /** Reports an unexpected error to whoever runs the server. */
  report(error: unknown): void
}

/**
 * Registers a tool. Its result is structured, and the same as JSON text: what the ledger or other people wrote is in
 * fields of it and never in words of ours. An unexpected error is reported, and the agent is told only that there was one.
 */
export function addTool<In extends z.ZodObject, Out extends z.ZodObject>(
  server: McpServer,
  tool: Tool<In, Out>,
  { scrub, report }: ToolContext,
): void {
  const { name, title, description, input: inputSchema, output: outputSchema, annotations, run } = tool
  const call = async (input: z.output<In>): Promise<CallToolResult> => {
    try {
      const { result, isError } = await run(input)
      const text = scrub(asText(outputSchema.parse(result)))
      return {
        content: [{ type: 'text', text }],
        structuredContent: JSON.parse(text) as Record<string, unknown>,
        isError,
      }
    } catch (error) {
      report(error)
      const text = 'This server failed. What was asked may or may not have happened: repeat the call unchanged.'
      return { content: [{ type: 'text', text }], isError: true }
    }
  }
  server.registerTool(name, { title, description, inputSchema, outputSchema, annotations }, call as never)
}

import type { Slice } from '../../platform/slice.ts'
import { mcpRoutes } from './routes.ts'

/** The MCP server for agents, over HTTP. */
export const mcpSlice: Slice = { plainRoutes: mcpRoutes }

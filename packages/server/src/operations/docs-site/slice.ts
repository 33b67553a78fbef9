import type { Slice } from '../../platform/slice.ts'
import { docsPages } from './routes.ts'

/** The guides as pages. */
export const docsSlice: Slice = {
  plainRoutes: docsPages().map((page) => ({ ...page, believesNothing: true })),
}

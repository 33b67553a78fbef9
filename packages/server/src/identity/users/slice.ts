import type { Slice } from '../../platform/slice.ts'
import { blankErased } from './erasure.ts'
import { userRoutes } from './routes.ts'

/** Users, their import and their erasure. */
export const userSlice: Slice = {
  routes: userRoutes,
  tasks: () => [blankErased],
}

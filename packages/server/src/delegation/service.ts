export { endSessionsOf } from './manage/revoke.ts'
export { invalidateDecisions } from './store.ts'

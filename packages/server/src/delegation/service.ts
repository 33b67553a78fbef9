export { AGENT_CALLS, AGENT_OPERATIONS, enterAsDelegate } from './agent/enter.ts'
export { endSessionsOf } from './manage/revoke.ts'
export { invalidateDecisions } from './store.ts'

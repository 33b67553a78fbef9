export { AGENT_CALLS, AGENT_OPERATIONS, enterAsDelegate } from './agent/enter.ts'
export { invalidateDecisions } from './manage/end-store.ts'
export { endSessionsOf } from './manage/revoke.ts'
export { endAllSessions } from './manage/revoke-all.ts'

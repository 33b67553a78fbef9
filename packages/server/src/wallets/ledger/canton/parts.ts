import type { Participant } from './participant.ts'
import type { CantonSettings } from './settings.ts'

/** What an adapter works with. */
export interface Parts {
  settings: CantonSettings
  participant: Participant
  /** The clock of what is stored. */
  now(): Date
}

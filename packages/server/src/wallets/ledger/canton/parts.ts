import type { Egress } from '../../../platform/egress/egress.ts'
import type { Participant } from './participant.ts'
import type { CantonSettings } from './settings.ts'

/** What an adapter works with. */
export interface Parts {
  settings: CantonSettings
  participant: Participant
  /** To the registries of tokens. The participant is the operator's, and is reached directly. */
  egress: Egress
  /** The clock of what is stored. */
  now(): Date
}

import { z } from 'zod'
import { type Participant, ParticipantError } from './participant.ts'
import type { CantonSettings } from './settings.ts'

const Version = z.object({ version: z.string() })
const ParticipantId = z.object({ participantId: z.string() })
const Synchronizers = z.object({
  connectedSynchronizers: z.array(z.object({ synchronizerId: z.string() })).nullish(),
})

/** The releases whose API this adapter was written for. */
const VERSIONS = /^3\.[3-6]\./

/** What there is to say about a participant: its version, or what is wrong. */
export interface Inspection {
  version: string | null
  problem: string | null
}

/** Looks whether this is the participant that the settings name, and whether it can be used. Changes nothing. */
export async function inspectParticipant(settings: CantonSettings, participant: Participant): Promise<Inspection> {
  let version: string | null = null
  const wrong = (problem: string): Inspection => ({ version, problem })
  try {
    version = (await participant.get('/v2/version', Version)).version
    const { participantId } = await participant.get('/v2/parties/participant-id', ParticipantId)
    if (participantId !== settings.participant)
      return wrong(`The participant there is ${participantId}, not ${settings.participant}.`)
    const { connectedSynchronizers: all } = await participant.get('/v2/state/connected-synchronizers', Synchronizers)
    if (!all?.some(({ synchronizerId }) => synchronizerId === settings.synchronizer))
      return wrong(`The participant is not connected to ${settings.synchronizer}.`)
  } catch (error) {
    if (!(error instanceof ParticipantError)) throw error
    return wrong(error.message)
  }
  return VERSIONS.test(version)
    ? { version, problem: null }
    : wrong(`Version ${version} is not supported: use 3.3 to 3.6.`)
}

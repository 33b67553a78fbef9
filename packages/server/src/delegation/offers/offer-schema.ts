import { z } from 'zod'
import { Execute } from '../schema.ts'

const CONTRACT_ID_CHARS_MAX = 510

export const AnswerOffer = Execute.pick({ commandId: true, commitments: true, dryRun: true })
  .extend({
    delegatedSessionId: z.string().meta({
      description: "The session that acts: one of the wallet's, whose policy allows what the answer does.",
      example: 'dse_01jb2m7x9kq4t8v6w0r3s5y1ze',
    }),
    contractId: z.string().max(CONTRACT_ID_CHARS_MAX).meta({
      description: "The offer's `contractId` that you decided about. If it is another one by now, nothing is answered.",
    }),
  })
  .meta({ id: 'AnswerOffer' })
export type AnswerOffer = z.infer<typeof AnswerOffer>

import type { Webhook } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { useToast } from '../../components/layout/toast.tsx'
import { messageOf } from '../../error-words.ts'

/** Pauses or resumes the deliveries to a webhook. */
export function useSetStatus(webhook: Webhook) {
  const queryClient = useQueryClient()
  const { done, failed } = useToast()
  return useMutation({
    mutationFn: (status: 'active' | 'paused') => api.webhooks.update(webhook.id, { status }),
    onSuccess: (after) => {
      done(after.status === 'active' ? 'Deliveries resumed' : 'Deliveries paused')
      return queryClient.invalidateQueries({ queryKey: ['webhooks'] })
    },
    onError: (error) => failed('The status was not changed', messageOf(error)),
  })
}

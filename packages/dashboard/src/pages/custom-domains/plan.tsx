import { useQuery } from '@tanstack/react-query'
import { CircleCheck, CircleDashed, CircleHelp } from 'lucide-react'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { LIVE } from '../../query-client.ts'

const REACH = {
  same_site: 'The domain is on the same site as the passkeys of the app, so they work there without changes.',
  related_origin: 'The passkeys of the app work on this domain as a related origin, in browsers that support this.',
  too_many_sites: 'Browsers accept at most five different sites for the passkeys of one app. This app has more.',
  none: 'The passkeys of the app do not work on this domain yet.',
}

function Done({ done }: { done: boolean | null }) {
  if (done === null)
    return <CircleHelp aria-label="Check this yourself" className="mt-0.5 size-5 flex-none text-soft" />
  return done ? (
    <CircleCheck aria-label="Done" className="mt-0.5 size-5 flex-none text-good" />
  ) : (
    <CircleDashed aria-label="Not done yet" className="mt-0.5 size-5 flex-none text-soft" />
  )
}

/** The steps to use the app's passkeys on a domain. */
export function Plan({ domainId }: { domainId: string }) {
  const query = useQuery({
    queryKey: ['custom-domains', domainId, 'plan'],
    queryFn: ({ signal }) => api.customDomains.plan(domainId, { signal }),
    ...LIVE,
  })
  return (
    <Card title="Passkeys on this domain" description={query.data === undefined ? undefined : REACH[query.data.reach]}>
      <Loaded query={query}>
        {({ steps, passkeys }) => (
          <>
            <ol className="flex flex-col gap-3">
              {steps.map((step) => (
                <li key={step.code} className="flex gap-3 text-sm">
                  <Done done={step.done} />
                  <span className="min-w-0 [overflow-wrap:anywhere]">{step.text}</span>
                </li>
              ))}
            </ol>
            {passkeys.length === 0 ? null : (
              <ul className="mt-4 flex flex-col gap-1 text-sm text-soft">
                {passkeys.map(({ rpId, count, reach }) => (
                  <li key={rpId}>
                    {count.toLocaleString('en')} {count === 1 ? 'passkey' : 'passkeys'} of {rpId}:{' '}
                    {reach === 'none' || reach === 'too_many_sites' ? 'not usable there' : 'usable there'}
                  </li>
                ))}
              </ul>
            )}
          </>
        )}
      </Loaded>
    </Card>
  )
}

import type { App, Body } from '@halfkey/sdk'
import { type FormField, linesOf } from '../../components/form/form-field.ts'

/** A form that holds the settings of ID tokens as they are typed, whatever else it holds. */
export interface WithOpenId {
  openid: { audiences: string; claims: string }
}

/** An app's settings, as the form begins. */
export const openidSettingsOf = ({ openid }: App): WithOpenId['openid'] => ({
  audiences: openid.audiences.join('\n'),
  claims: openid.claims.join('\n'),
})

/** What an update of an app sends of them. */
export const openidBodyOf = ({
  audiences,
  claims,
}: WithOpenId['openid']): NonNullable<NonNullable<Body<'/apps/{id}', 'patch'>>['openid']> => ({
  audiences: linesOf(audiences),
  claims: linesOf(claims),
})

/** The section of an app's settings. */
export const OPENID_SECTION: { title: string; description: string; fields: FormField<WithOpenId>[] } = {
  title: 'ID tokens',
  description:
    'With an ID token, users show other services who they are. The issuer of this app is at the top of this page.',
  fields: [
    {
      name: 'openid.audiences',
      label: 'Audiences of ID tokens',
      kind: 'lines',
      help: 'One per line: who else verifies the tokens, as they expect it in aud. The id of this app is always allowed.',
    },
    {
      name: 'openid.claims',
      label: 'Claims of ID tokens',
      kind: 'lines',
      help: 'One name per line. The claim plan has the value of claim:plan in the metadata of the user.',
    },
  ],
}

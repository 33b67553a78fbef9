import type { User } from '@halfkey/sdk'
import { type FormField, withoutEmpty } from '../../components/form/form-field.ts'
import { METADATA_FIELD, type MetadataRow, metadataOf, rowsOf } from '../../components/form/metadata-field.tsx'

/** A user as they are edited; empty text stands for null. */
export interface UserInput {
  email: string
  name: string
  externalId: string
  metadata: MetadataRow[]
}

/** What the form of a user begins with. */
export const inputOf = (user?: Pick<User, 'email' | 'name' | 'externalId' | 'metadata'>): UserInput => ({
  email: user?.email ?? '',
  name: user?.name ?? '',
  externalId: user?.externalId ?? '',
  metadata: rowsOf(user?.metadata ?? {}),
})

/** The properties that a create request takes: those that were typed. */
export const givenOf = ({ email, name, externalId, metadata }: UserInput) => ({
  ...withoutEmpty({ email, name, externalId }),
  ...(metadata.length === 0 ? {} : { metadata: metadataOf(metadata) }),
})

/** The fields of a user: to create one, to change one, and to convert a guest. */
export const USER_FIELDS: readonly FormField<UserInput>[] = [
  { name: 'email', label: 'Email', input: { inputMode: 'email', spellCheck: false, dir: 'auto' } },
  { name: 'name', label: 'Name', input: { dir: 'auto' } },
  {
    name: 'externalId',
    label: 'External id',
    help: 'Your id for this user. It must be unique within the app.',
    input: { spellCheck: false },
  },
  METADATA_FIELD,
]

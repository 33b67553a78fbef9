import type { App, Body } from '@halfkey/sdk'
import { type FormField, linesOf } from '../../components/form/form-field.ts'

/** A form that holds an app's branding as it is typed, whatever else it holds: the order of the ways in one per line. */
export interface WithBranding {
  branding: Pick<App['branding'], 'cornerRadius' | 'colorScheme'> & {
    name: string
    accentColor: string
    methodOrder: string
    termsUrl: string
    privacyUrl: string
    supportUrl: string
  }
}

/** An app's branding, as the form begins. */
export const brandingSettingsOf = ({ branding }: App): WithBranding['branding'] => ({
  name: branding.name ?? '',
  accentColor: branding.accentColor ?? '',
  cornerRadius: branding.cornerRadius,
  colorScheme: branding.colorScheme,
  methodOrder: branding.methodOrder.join('\n'),
  termsUrl: branding.termsUrl ?? '',
  privacyUrl: branding.privacyUrl ?? '',
  supportUrl: branding.supportUrl ?? '',
})

type Branding = NonNullable<NonNullable<Body<'/apps/{id}', 'patch'>>['branding']>

/** What an update of an app sends of it. */
export const brandingBodyOf = ({
  accentColor,
  cornerRadius,
  colorScheme,
  methodOrder,
  ...texts
}: WithBranding['branding']): Branding => ({
  cornerRadius,
  colorScheme,
  name: texts.name.trim() || null,
  accentColor: accentColor.trim().toLowerCase() || null,
  // The service says of each line whether it is a way in.
  methodOrder: linesOf(methodOrder.toLowerCase()) as Branding['methodOrder'] & string[],
  termsUrl: texts.termsUrl.trim() || null,
  privacyUrl: texts.privacyUrl.trim() || null,
  supportUrl: texts.supportUrl.trim() || null,
})

/** The section of an app's settings. */
export const BRANDING_SECTION: { title: string; description: string; fields: FormField<WithBranding>[] } = {
  title: 'Branding',
  description: 'How the hosted pages look. Name and colour also apply to the webhook portal of your subscribers.',
  fields: [
    { name: 'branding.name', label: 'Name on the pages', help: 'Leave it empty to show the name of the app.' },
    {
      name: 'branding.accentColor',
      label: 'Colour of buttons',
      input: { placeholder: '#1d4ed8' },
      help: 'White text must be readable on it. Leave it empty for the default colour.',
    },
    {
      name: 'branding.cornerRadius',
      label: 'Corners',
      kind: 'select',
      options: [
        { value: 'square', label: 'Square' },
        { value: 'rounded', label: 'Rounded' },
        { value: 'round', label: 'Round' },
      ],
    },
    {
      name: 'branding.colorScheme',
      label: 'Colour scheme',
      kind: 'select',
      options: [
        { value: 'auto', label: 'As the browser of the user' },
        { value: 'light', label: 'Light' },
        { value: 'dark', label: 'Dark' },
      ],
    },
    {
      name: 'branding.methodOrder',
      label: 'Order of the ways to sign in',
      kind: 'lines',
      help: 'One per line: passkey, email, wallet, provider, messenger or guest. The first one is the main button. Ways that are not here follow. This turns no way on or off.',
    },
    { name: 'branding.termsUrl', label: 'Terms of service', input: { placeholder: 'https://shop.example.com/terms' } },
    {
      name: 'branding.privacyUrl',
      label: 'Privacy policy',
      input: { placeholder: 'https://shop.example.com/privacy' },
    },
    {
      name: 'branding.supportUrl',
      label: 'Support',
      input: { placeholder: 'https://shop.example.com/help' },
      help: 'The hosted pages link to these addresses. Leave an address empty to show no link.',
    },
  ],
}

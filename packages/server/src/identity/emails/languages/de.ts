import type { EmailTexts } from './language.ts'

export const de: EmailTexts = {
  subject: { sign_in: 'Ihr Code für {app}', link: 'Bestätigen Sie Ihre E-Mail-Adresse für {app}' },
  intro: {
    sign_in: 'Geben Sie diesen Code ein, um sich bei {app} anzumelden:',
    link: 'Geben Sie diesen Code in {app} ein, um sich künftig mit dieser E-Mail-Adresse anzumelden:',
  },
  link: 'Oder öffnen Sie diesen Link in dem Browser, in dem Sie den Code angefordert haben:',
  button: 'Weiter',
  validity: 'Der Code gilt {minutes} Minuten. Geben Sie ihn niemandem, der Sie danach fragt.',
  unasked:
    'Wenn Sie diesen Code nicht angefordert haben, können Sie diese E-Mail ignorieren. Ohne den Code kann sich niemand anmelden.',
}

import type { EmailTexts } from './language.ts'

export const de: EmailTexts = {
  subject: {
    sign_in: 'Ihr Code für {app}',
    link: 'Bestätigen Sie Ihre E-Mail-Adresse für {app}',
    change: 'Bestätigen Sie Ihre neue E-Mail-Adresse für {app}',
    change_current: 'Ihre E-Mail-Adresse für {app} soll geändert werden',
  },
  intro: {
    sign_in: 'Geben Sie diesen Code ein, um sich bei {app} anzumelden:',
    link: 'Geben Sie diesen Code in {app} ein, um sich künftig mit dieser E-Mail-Adresse anzumelden:',
    change: 'Geben Sie diesen Code in {app} ein, um künftig diese E-Mail-Adresse zu verwenden:',
    change_current:
      'Jemand, der in Ihrem Konto bei {app} angemeldet ist, möchte diese E-Mail-Adresse ersetzen. Nur wenn Sie das sind, geben Sie diesen Code ein:',
  },
  link: 'Oder öffnen Sie diesen Link in dem Browser, in dem Sie den Code angefordert haben:',
  button: 'Weiter',
  validity: 'Der Code gilt {minutes} Minuten. Geben Sie ihn niemandem, der Sie danach fragt.',
  unasked:
    'Wenn Sie diesen Code nicht angefordert haben, können Sie diese E-Mail ignorieren. Ohne den Code kann sich niemand anmelden.',
}

import type { EmailTexts } from './language.ts'

const IGNORE =
  'Wenn Sie diesen Code nicht angefordert haben, können Sie diese E-Mail ignorieren. Ohne den Code kann sich niemand anmelden.'
const STOP =
  'Wenn Sie das nicht angefordert haben, brechen Sie die Wiederherstellung mit dem Link in dieser E-Mail ab oder melden Sie sich mit Ihrem Passkey an. Sichern Sie dann dieses Postfach: Vielleicht liest es noch jemand.'

export const de: EmailTexts = {
  subject: {
    sign_in: 'Ihr Code für {{appName}}',
    link: 'Bestätigen Sie Ihre E-Mail-Adresse für {{appName}}',
    change: 'Bestätigen Sie Ihre neue E-Mail-Adresse für {{appName}}',
    change_current: 'Ihre E-Mail-Adresse für {{appName}} soll geändert werden',
    recovery: 'Ihr Code, um Ihr Konto bei {{appName}} wiederherzustellen',
    recovery_requested: 'Jemand möchte Ihr Konto bei {{appName}} wiederherstellen',
    recovery_reminder: 'Ihr Konto bei {{appName}} kann bald wiederhergestellt werden',
    recovery_completed: 'Ihr Konto bei {{appName}} hat einen neuen Passkey',
  },
  intro: {
    sign_in: 'Geben Sie diesen Code ein, um sich bei {{appName}} anzumelden:',
    link: 'Geben Sie diesen Code in {{appName}} ein, um sich künftig mit dieser E-Mail-Adresse anzumelden:',
    change: 'Geben Sie diesen Code in {{appName}} ein, um künftig diese E-Mail-Adresse zu verwenden:',
    change_current:
      'Jemand, der in Ihrem Konto bei {{appName}} angemeldet ist, möchte diese E-Mail-Adresse ersetzen. Nur wenn Sie das sind, geben Sie diesen Code ein:',
    recovery:
      'Geben Sie diesen Code ein, um für Ihr Konto bei {{appName}} einen neuen Passkey anzulegen, weil Sie Ihren verloren haben:',
    recovery_requested:
      'Jemand, der dieses Postfach liest, hat einen neuen Passkey für Ihr Konto bei {{appName}} angefordert. Ab {{time}} lässt er sich mit einem weiteren Code anlegen, den wir hierher senden. Wenn Sie das sind, behalten Sie diese E-Mail und kommen Sie dann wieder.',
    recovery_reminder:
      'Ab {{time}} kann Ihr Konto bei {{appName}} mit einem Code, den wir an diese Adresse senden, einen neuen Passkey bekommen. Jemand hat das mit einem früheren Code aus diesem Postfach angefordert. Wenn Sie das sind, kommen Sie dann wieder.',
    recovery_completed:
      'Ihr Konto bei {{appName}} wurde mit einem Code aus diesem Postfach wiederhergestellt. Es hat jetzt einen neuen Passkey, und wer angemeldet war, wurde abgemeldet.',
  },
  link: 'Oder öffnen Sie diesen Link in dem Browser, in dem Sie den Code angefordert haben:',
  button: 'Weiter',
  validity: 'Der Code gilt {{minutes}} Minuten. Geben Sie ihn niemandem, der Sie danach fragt.',
  notice: {
    recovery_requested: { link: 'Wenn Sie das nicht sind, brechen Sie es hier ab:', button: 'Abbrechen' },
    recovery_reminder: { link: 'Wenn Sie das nicht sind, brechen Sie es hier ab:', button: 'Abbrechen' },
    recovery_completed: null,
  },
  warning: {
    sign_in: IGNORE,
    link: IGNORE,
    change: IGNORE,
    change_current:
      'Wenn Sie diese Änderung nicht angefordert haben, geben Sie den Code niemandem: Ohne ihn bleibt Ihre Adresse, wie sie ist. Jemand anderes ist in Ihrem Konto bei {{appName}} angemeldet. Melden Sie sich an und beenden Sie die Sitzungen, die nicht Ihre sind.',
    recovery:
      'Wenn Sie diesen Code nicht angefordert haben, versucht vielleicht jemand, in Ihr Konto zu gelangen. Ignorieren Sie diese E-Mail und geben Sie den Code niemandem.',
    recovery_requested: STOP,
    recovery_reminder: STOP,
    recovery_completed:
      'Wenn Sie das nicht waren, liest jemand anderes dieses Postfach. Sichern Sie es, und wenden Sie sich sofort an {{appName}}.',
  },
}

import type { EmailTexts } from './language.ts'

const IGNORE = 'If you did not ask for this code, you can ignore this email. Nobody can sign in without the code.'
const STOP =
  'If you did not ask for this, stop the recovery with the link in this email, or by signing in with your passkey. Then secure this mailbox: somebody else may read it.'

export const en: EmailTexts = {
  subject: {
    sign_in: 'Your code for {{appName}}',
    link: 'Confirm your email address for {{appName}}',
    change: 'Confirm your new email address for {{appName}}',
    change_current: 'Your email address for {{appName}} is about to change',
    recovery: 'Your code to recover your account at {{appName}}',
    recovery_requested: 'Somebody asked to recover your account at {{appName}}',
    recovery_reminder: 'Your account at {{appName}} can soon be recovered',
    recovery_completed: 'Your account at {{appName}} has a new passkey',
  },
  intro: {
    sign_in: 'Enter this code to sign in to {{appName}}:',
    link: 'Enter this code in {{appName}} to use this email address for signing in:',
    change: 'Enter this code in {{appName}} to use this email address from now on:',
    change_current:
      'Somebody who is signed in to your account at {{appName}} wants to replace this email address. Only if that is you, enter this code:',
    recovery: 'Enter this code to get a new passkey for your account at {{appName}}, because you lost yours:',
    recovery_requested:
      'Somebody who reads this mailbox asked for a new passkey of your account at {{appName}}. From {{time}} on, they can create it with another code that we send here. If that is you, keep this email and come back then.',
    recovery_reminder:
      'From {{time}} on, your account at {{appName}} can get a new passkey with a code that we send to this address. Somebody asked for it with an earlier code from this mailbox. If that is you, come back then.',
    recovery_completed:
      'Your account at {{appName}} was recovered by a code from this mailbox. It has a new passkey now, and everybody who was signed in has been signed out.',
  },
  link: 'Or open this link in the browser in which you asked for the code:',
  button: 'Continue',
  validity: 'The code is valid for {{minutes}} minutes. Never give it to anybody who asks you for it.',
  notice: {
    recovery_requested: { link: 'If that is not you, stop it here:', button: 'Stop the recovery' },
    recovery_reminder: { link: 'If that is not you, stop it here:', button: 'Stop the recovery' },
    recovery_completed: null,
  },
  warning: {
    sign_in: IGNORE,
    link: IGNORE,
    change: IGNORE,
    change_current:
      'If you did not ask for this change, give the code to nobody: without it, your address stays as it is. Somebody else is signed in to your account at {{appName}}. Sign in and end the sessions that are not yours.',
    recovery:
      'If you did not ask for this code, somebody may be trying to get into your account. Ignore this email, and give the code to nobody.',
    recovery_requested: STOP,
    recovery_reminder: STOP,
    recovery_completed:
      'If that was not you, somebody else reads this mailbox. Secure it, and contact {{appName}} at once.',
  },
}

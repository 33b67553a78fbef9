import type { EmailTexts } from './language.ts'

export const en: EmailTexts = {
  subject: {
    sign_in: 'Your code for {app}',
    link: 'Confirm your email address for {app}',
    change: 'Confirm your new email address for {app}',
    change_current: 'Your email address for {app} is about to change',
  },
  intro: {
    sign_in: 'Enter this code to sign in to {app}:',
    link: 'Enter this code in {app} to use this email address for signing in:',
    change: 'Enter this code in {app} to use this email address from now on:',
    change_current:
      'Somebody who is signed in to your account at {app} wants to replace this email address. Only if that is you, enter this code:',
  },
  link: 'Or open this link in the browser in which you asked for the code:',
  button: 'Continue',
  validity: 'The code is valid for {minutes} minutes. Never give it to anybody who asks you for it.',
  unasked: 'If you did not ask for this code, you can ignore this email. Nobody can sign in without the code.',
}

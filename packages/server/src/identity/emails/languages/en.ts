import type { EmailTexts } from './language.ts'

export const en: EmailTexts = {
  subject: { sign_in: 'Your code for {app}', link: 'Confirm your email address for {app}' },
  intro: {
    sign_in: 'Enter this code to sign in to {app}:',
    link: 'Enter this code in {app} to use this email address for signing in:',
  },
  link: 'Or open this link in the browser in which you asked for the code:',
  button: 'Continue',
  validity: 'The code is valid for {minutes} minutes. Never give it to anybody who asks you for it.',
  unasked: 'If you did not ask for this code, you can ignore this email. Nobody can sign in without the code.',
}

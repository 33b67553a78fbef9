import type { EmailTexts } from './language.ts'

const IGNORE =
  'Si vous n’avez pas demandé ce code, vous pouvez ignorer cet e-mail. Sans le code, personne ne peut se connecter.'
const STOP =
  'Si vous n’avez rien demandé, arrêtez la récupération avec le lien de cet e-mail, ou en vous connectant avec votre clé d’accès. Sécurisez ensuite cette boîte aux lettres : quelqu’un d’autre la lit peut-être.'

export const fr: EmailTexts = {
  subject: {
    sign_in: 'Votre code pour {{appName}}',
    link: 'Confirmez votre adresse e-mail pour {{appName}}',
    change: 'Confirmez votre nouvelle adresse e-mail pour {{appName}}',
    change_current: 'Votre adresse e-mail pour {{appName}} va changer',
    recovery: 'Votre code pour récupérer votre compte {{appName}}',
    recovery_requested: 'Quelqu’un a demandé à récupérer votre compte {{appName}}',
    recovery_reminder: 'Votre compte {{appName}} pourra bientôt être récupéré',
    recovery_completed: 'Votre compte {{appName}} a une nouvelle clé d’accès',
  },
  intro: {
    sign_in: 'Saisissez ce code pour vous connecter à {{appName}} :',
    link: 'Saisissez ce code dans {{appName}} pour vous connecter avec cette adresse e-mail :',
    change: 'Saisissez ce code dans {{appName}} pour utiliser désormais cette adresse e-mail :',
    change_current:
      'Une personne connectée à votre compte {{appName}} veut remplacer cette adresse e-mail. Saisissez ce code uniquement si c’est vous :',
    recovery:
      'Saisissez ce code pour obtenir une nouvelle clé d’accès à votre compte {{appName}}, parce que vous avez perdu la vôtre :',
    recovery_requested:
      'Une personne qui lit cette boîte aux lettres a demandé une nouvelle clé d’accès à votre compte {{appName}}. À partir du {{time}}, elle pourra la créer avec un autre code que nous enverrons ici. Si c’est vous, gardez cet e-mail et revenez à ce moment-là.',
    recovery_reminder:
      'À partir du {{time}}, votre compte {{appName}} pourra recevoir une nouvelle clé d’accès avec un code que nous envoyons à cette adresse. Quelqu’un l’a demandée avec un code antérieur reçu dans cette boîte aux lettres. Si c’est vous, revenez à ce moment-là.',
    recovery_completed:
      'Votre compte {{appName}} a été récupéré avec un code reçu dans cette boîte aux lettres. Il a maintenant une nouvelle clé d’accès, et toutes les personnes connectées ont été déconnectées.',
  },
  link: 'Ou ouvrez ce lien dans le navigateur où vous avez demandé le code :',
  button: 'Continuer',
  validity: 'Le code est valable {{minutes}} minutes. Ne le donnez jamais à une personne qui vous le demande.',
  notice: {
    recovery_requested: { link: 'Si ce n’est pas vous, arrêtez-la ici :', button: 'Arrêter la récupération' },
    recovery_reminder: { link: 'Si ce n’est pas vous, arrêtez-la ici :', button: 'Arrêter la récupération' },
    recovery_completed: null,
  },
  warning: {
    sign_in: IGNORE,
    link: IGNORE,
    change: IGNORE,
    change_current:
      'Si vous n’avez pas demandé ce changement, ne donnez le code à personne : sans lui, votre adresse reste la même. Quelqu’un d’autre est connecté à votre compte {{appName}}. Connectez-vous et mettez fin aux sessions qui ne sont pas les vôtres.',
    recovery:
      'Si vous n’avez pas demandé ce code, quelqu’un essaie peut-être d’accéder à votre compte. Ignorez cet e-mail et ne donnez le code à personne.',
    recovery_requested: STOP,
    recovery_reminder: STOP,
    recovery_completed:
      'Si ce n’était pas vous, quelqu’un d’autre lit cette boîte aux lettres. Sécurisez-la et contactez {{appName}} immédiatement.',
  },
}

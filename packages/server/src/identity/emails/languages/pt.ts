import type { EmailTexts } from './language.ts'

const IGNORE = 'Se não pediu este código, pode ignorar este e-mail. Ninguém consegue iniciar sessão sem o código.'
const STOP =
  'Se não fez este pedido, cancele a recuperação com a ligação deste e-mail ou iniciando sessão com a sua chave de acesso. Depois, proteja esta caixa de correio: é possível que outra pessoa a leia.'

export const pt: EmailTexts = {
  subject: {
    sign_in: 'O seu código para {{appName}}',
    link: 'Confirme o seu endereço de e-mail para {{appName}}',
    change: 'Confirme o seu novo endereço de e-mail para {{appName}}',
    change_current: 'O seu endereço de e-mail em {{appName}} vai mudar',
    recovery: 'O seu código para recuperar a sua conta em {{appName}}',
    recovery_requested: 'Alguém pediu para recuperar a sua conta em {{appName}}',
    recovery_reminder: 'A sua conta em {{appName}} poderá ser recuperada em breve',
    recovery_completed: 'A sua conta em {{appName}} tem uma nova chave de acesso',
  },
  intro: {
    sign_in: 'Introduza este código para iniciar sessão em {{appName}}:',
    link: 'Introduza este código em {{appName}} para iniciar sessão com este endereço de e-mail:',
    change: 'Introduza este código em {{appName}} para usar este endereço de e-mail a partir de agora:',
    change_current:
      'Uma pessoa com sessão iniciada na sua conta em {{appName}} quer substituir este endereço de e-mail. Introduza este código apenas se for o seu caso:',
    recovery:
      'Introduza este código para criar uma nova chave de acesso para a sua conta em {{appName}}, porque perdeu a sua:',
    recovery_requested:
      'Uma pessoa que lê esta caixa de correio pediu uma nova chave de acesso para a sua conta em {{appName}}. A partir de {{time}}, poderá criá-la com outro código que enviaremos para aqui. Se for o seu caso, guarde este e-mail e volte nessa altura.',
    recovery_reminder:
      'A partir de {{time}}, a sua conta em {{appName}} poderá receber uma nova chave de acesso com um código que enviamos para este endereço. Alguém fez o pedido com um código anterior desta caixa de correio. Se for o seu caso, volte nessa altura.',
    recovery_completed:
      'A sua conta em {{appName}} foi recuperada com um código desta caixa de correio. Tem agora uma nova chave de acesso, e todas as sessões iniciadas foram terminadas.',
  },
  link: 'Ou abra esta ligação no navegador em que pediu o código:',
  button: 'Continuar',
  validity: 'O código é válido durante {{minutes}} minutos. Nunca o dê a ninguém que lho peça.',
  notice: {
    recovery_requested: { link: 'Se não fez este pedido, cancele-o aqui:', button: 'Cancelar a recuperação' },
    recovery_reminder: { link: 'Se não fez este pedido, cancele-o aqui:', button: 'Cancelar a recuperação' },
    recovery_completed: null,
  },
  warning: {
    sign_in: IGNORE,
    link: IGNORE,
    change: IGNORE,
    change_current:
      'Se não pediu esta alteração, não dê o código a ninguém: sem ele, o seu endereço não muda. Outra pessoa tem sessão iniciada na sua conta em {{appName}}. Inicie sessão e termine as sessões que não são suas.',
    recovery:
      'Se não pediu este código, é possível que alguém esteja a tentar entrar na sua conta. Ignore este e-mail e não dê o código a ninguém.',
    recovery_requested: STOP,
    recovery_reminder: STOP,
    recovery_completed:
      'Se não foi o seu caso, outra pessoa lê esta caixa de correio. Proteja-a e contacte {{appName}} imediatamente.',
  },
}

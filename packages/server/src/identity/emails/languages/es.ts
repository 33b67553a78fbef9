import type { EmailTexts } from './language.ts'

const IGNORE = 'Si no ha pedido este código, puede ignorar este correo. Nadie puede iniciar sesión sin el código.'
const STOP =
  'Si no lo ha pedido, detenga la recuperación con el enlace de este correo o iniciando sesión con su llave de acceso. Después, proteja este buzón: puede que otra persona lo lea.'

export const es: EmailTexts = {
  subject: {
    sign_in: 'Su código para {{appName}}',
    link: 'Confirme su dirección de correo para {{appName}}',
    change: 'Confirme su nueva dirección de correo para {{appName}}',
    change_current: 'Su dirección de correo en {{appName}} va a cambiar',
    recovery: 'Su código para recuperar su cuenta de {{appName}}',
    recovery_requested: 'Alguien ha pedido recuperar su cuenta de {{appName}}',
    recovery_reminder: 'Su cuenta de {{appName}} pronto podrá recuperarse',
    recovery_completed: 'Su cuenta de {{appName}} tiene una nueva llave de acceso',
  },
  intro: {
    sign_in: 'Introduzca este código para iniciar sesión en {{appName}}:',
    link: 'Introduzca este código en {{appName}} para iniciar sesión con esta dirección de correo:',
    change: 'Introduzca este código en {{appName}} para usar esta dirección de correo a partir de ahora:',
    change_current:
      'Una persona que tiene la sesión iniciada en su cuenta de {{appName}} quiere cambiar esta dirección de correo. Introduzca este código solo si es usted:',
    recovery:
      'Introduzca este código para crear una nueva llave de acceso para su cuenta de {{appName}}, porque ha perdido la suya:',
    recovery_requested:
      'Una persona que lee este buzón ha pedido una nueva llave de acceso para su cuenta de {{appName}}. A partir del {{time}} podrá crearla con otro código que enviaremos aquí. Si es usted, guarde este correo y vuelva entonces.',
    recovery_reminder:
      'A partir del {{time}}, su cuenta de {{appName}} podrá recibir una nueva llave de acceso con un código que enviamos a esta dirección. Alguien lo ha pedido con un código anterior de este buzón. Si es usted, vuelva entonces.',
    recovery_completed:
      'Su cuenta de {{appName}} se ha recuperado con un código de este buzón. Ahora tiene una nueva llave de acceso y se han cerrado todas las sesiones abiertas.',
  },
  link: 'O abra este enlace en el navegador en el que pidió el código:',
  button: 'Continuar',
  validity: 'El código es válido durante {{minutes}} minutos. No se lo dé nunca a nadie que se lo pida.',
  notice: {
    recovery_requested: { link: 'Si no es usted, deténgala aquí:', button: 'Detener la recuperación' },
    recovery_reminder: { link: 'Si no es usted, deténgala aquí:', button: 'Detener la recuperación' },
    recovery_completed: null,
  },
  warning: {
    sign_in: IGNORE,
    link: IGNORE,
    change: IGNORE,
    change_current:
      'Si no ha pedido este cambio, no dé el código a nadie: sin él, su dirección no cambia. Otra persona tiene la sesión iniciada en su cuenta de {{appName}}. Inicie sesión y cierre las sesiones que no sean suyas.',
    recovery:
      'Si no ha pedido este código, puede que alguien intente entrar en su cuenta. Ignore este correo y no dé el código a nadie.',
    recovery_requested: STOP,
    recovery_reminder: STOP,
    recovery_completed:
      'Si no ha sido usted, otra persona lee este buzón. Protéjalo y póngase en contacto con {{appName}} de inmediato.',
  },
}

import type { EmailTexts } from './language.ts'

const IGNORE = '如果您没有请求此验证码，请忽略此邮件。没有验证码，任何人都无法登录。'
const STOP =
  '如果这不是您的请求，请使用此邮件中的链接，或使用您的通行密钥登录，以停止恢复。然后请保护好此邮箱：可能有其他人在阅读它。'

export const zh: EmailTexts = {
  subject: {
    sign_in: '您的 {{appName}} 验证码',
    link: '确认您在 {{appName}} 的邮箱地址',
    change: '确认您在 {{appName}} 的新邮箱地址',
    change_current: '您在 {{appName}} 的邮箱地址即将更改',
    recovery: '用于恢复您的 {{appName}} 账户的验证码',
    recovery_requested: '有人请求恢复您的 {{appName}} 账户',
    recovery_reminder: '您的 {{appName}} 账户即将可以恢复',
    recovery_completed: '您的 {{appName}} 账户已添加新的通行密钥',
  },
  intro: {
    sign_in: '请输入此验证码以登录 {{appName}}：',
    link: '请在 {{appName}} 中输入此验证码，以便今后使用此邮箱地址登录：',
    change: '请在 {{appName}} 中输入此验证码，以便今后使用此邮箱地址：',
    change_current: '有人登录了您的 {{appName}} 账户，并想更换此邮箱地址。仅当这是您本人时，才输入此验证码：',
    recovery: '您丢失了通行密钥。请输入此验证码，为您的 {{appName}} 账户创建新的通行密钥：',
    recovery_requested:
      '能够阅读此邮箱的人为您的 {{appName}} 账户请求了新的通行密钥。从 {{time}} 起，对方可以使用我们发送到此邮箱的另一个验证码创建它。如果这是您本人，请保留此邮件，届时再来。',
    recovery_reminder:
      '从 {{time}} 起，您的 {{appName}} 账户可以使用我们发送到此地址的验证码创建新的通行密钥。有人使用此邮箱中先前的验证码提出了请求。如果这是您本人，请届时再来。',
    recovery_completed:
      '您的 {{appName}} 账户已通过发送到此邮箱的验证码恢复。账户现在有了新的通行密钥，所有已登录的会话均已退出。',
  },
  link: '或者在请求验证码的浏览器中打开此链接：',
  button: '继续',
  validity: '验证码在 {{minutes}} 分钟内有效。切勿告诉任何向您索要它的人。',
  notice: {
    recovery_requested: { link: '如果这不是您本人，请在此处停止：', button: '停止恢复' },
    recovery_reminder: { link: '如果这不是您本人，请在此处停止：', button: '停止恢复' },
    recovery_completed: null,
  },
  warning: {
    sign_in: IGNORE,
    link: IGNORE,
    change: IGNORE,
    change_current:
      '如果您没有请求此更改，请不要将验证码告诉任何人：没有它，您的地址不会改变。有其他人登录了您的 {{appName}} 账户。请登录并结束不属于您的会话。',
    recovery: '如果您没有请求此验证码，可能有人正试图进入您的账户。请忽略此邮件，不要将验证码告诉任何人。',
    recovery_requested: STOP,
    recovery_reminder: STOP,
    recovery_completed: '如果这不是您本人所为，说明有其他人在阅读此邮箱。请保护好邮箱，并立即联系 {{appName}}。',
  },
}

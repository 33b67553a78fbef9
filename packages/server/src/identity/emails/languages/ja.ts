import type { EmailTexts } from './language.ts'

const IGNORE =
  'このコードをリクエストしていない場合は、このメールを無視してください。コードがなければ、誰もサインインできません。'
const STOP =
  '心当たりがない場合は、このメールのリンクから、またはパスキーでサインインして、復元を中止してください。そのうえで、このメールボックスを保護してください。ほかの人が読んでいる可能性があります。'

export const ja: EmailTexts = {
  subject: {
    sign_in: '{{appName}} の確認コード',
    link: '{{appName}} のメールアドレスを確認してください',
    change: '{{appName}} の新しいメールアドレスを確認してください',
    change_current: '{{appName}} のメールアドレスが変更されようとしています',
    recovery: '{{appName}} のアカウントを復元するためのコード',
    recovery_requested: '{{appName}} のアカウントの復元がリクエストされました',
    recovery_reminder: '{{appName}} のアカウントがまもなく復元可能になります',
    recovery_completed: '{{appName}} のアカウントに新しいパスキーが追加されました',
  },
  intro: {
    sign_in: '{{appName}} にサインインするには、このコードを入力してください。',
    link: '今後このメールアドレスでサインインするには、{{appName}} でこのコードを入力してください。',
    change: '今後このメールアドレスを使用するには、{{appName}} でこのコードを入力してください。',
    change_current:
      '{{appName}} のあなたのアカウントにサインインしている人が、このメールアドレスを変更しようとしています。ご本人の場合にのみ、このコードを入力してください。',
    recovery: 'パスキーを失った {{appName}} のアカウントに新しいパスキーを作成するには、このコードを入力してください。',
    recovery_requested:
      'このメールボックスを読める人が、{{appName}} のあなたのアカウントの新しいパスキーをリクエストしました。{{time}} 以降、ここに届く別のコードで作成できるようになります。ご本人の場合は、このメールを保管し、その時刻以降にもう一度お越しください。',
    recovery_reminder:
      '{{time}} 以降、このアドレスに届くコードで、{{appName}} のあなたのアカウントに新しいパスキーを作成できるようになります。このメールボックスに届いた以前のコードでリクエストされました。ご本人の場合は、その時刻以降にもう一度お越しください。',
    recovery_completed:
      '{{appName}} のあなたのアカウントは、このメールボックスに届いたコードで復元されました。新しいパスキーが追加され、サインイン中の端末はすべてサインアウトされました。',
  },
  link: 'または、コードをリクエストしたブラウザーでこのリンクを開いてください。',
  button: '続ける',
  validity: 'コードの有効期間は {{minutes}} 分です。尋ねられても、決して誰にも教えないでください。',
  notice: {
    recovery_requested: { link: '心当たりがない場合は、こちらで中止してください。', button: '復元を中止する' },
    recovery_reminder: { link: '心当たりがない場合は、こちらで中止してください。', button: '復元を中止する' },
    recovery_completed: null,
  },
  warning: {
    sign_in: IGNORE,
    link: IGNORE,
    change: IGNORE,
    change_current:
      'この変更をリクエストしていない場合は、コードを誰にも教えないでください。コードがなければ、アドレスは変更されません。ほかの人が {{appName}} のあなたのアカウントにサインインしています。サインインして、心当たりのないセッションを終了してください。',
    recovery:
      'このコードをリクエストしていない場合は、誰かがあなたのアカウントに入ろうとしている可能性があります。このメールを無視し、コードを誰にも教えないでください。',
    recovery_requested: STOP,
    recovery_reminder: STOP,
    recovery_completed:
      '心当たりがない場合は、ほかの人がこのメールボックスを読んでいます。メールボックスを保護し、ただちに {{appName}} にご連絡ください。',
  },
}

const JSON_TYPE = "-H 'content-type: application/json'"

/** Two shell functions: an API call, and a field of its answer (with Node.js, which the server needs too). */
function helpers(publicUrl: string): string[] {
  return [
    `api() { curl -sS -H "x-api-key: $HALFKEY_KEY" ${JSON_TYPE} "$@"; }`,
    `field() { node -pe "JSON.parse(require('fs').readFileSync(0)).data.$1"; }`,
    `URL=${publicUrl}/v1`,
  ]
}

const user = [
  `USER_ID=$(api $URL/users -d '{"name":"Ada"}' | field id)`,
  `PARTY=$(api $URL/users/me/wallet -H "x-user-id: $USER_ID" -d '{}' | field partyId)`,
]

const NOTES = {
  name: 'Notes',
  policy: { allow: [{ templateId: 'Note:Note', actions: ['create'] }], query: { templateIds: ['Note:Note'] } },
}

const session = `SESSION_ID=$(api $URL/delegated-sessions -H "x-user-id: $USER_ID" -d '${JSON.stringify(NOTES)}' | field id)`

/** Shell commands that create a user with a wallet. */
export function walletCommand(publicUrl: string): string {
  return [...helpers(publicUrl), ...user, 'echo "$PARTY"'].join('\n')
}

/** The same, with a delegated session that may write notes. */
export function sessionCommand(publicUrl: string): string {
  return [...helpers(publicUrl), ...user, session, 'echo "$SESSION_ID"'].join('\n')
}

/** The same, and a first transaction by it. */
export function transactionCommand(publicUrl: string): string {
  const body = `{"commands":[{"create":{"templateId":"Note:Note","arguments":{"author":"'$PARTY'","text":"Hello"}}}]}`
  return [...helpers(publicUrl), ...user, session, `api $URL/delegated-sessions/$SESSION_ID/execute -d '${body}'`].join(
    '\n',
  )
}

import type { Remedy } from './remedy.ts'

/** Of what any call may meet. */
export const REQUEST_REMEDIES = {
  validation_failed: {
    means:
      'The path was found and the key is good, but the query or the body does not have the form that this endpoint takes. `details` has one element for each field that is wrong, up to 50.',
    causes: [
      'A required field is missing (`required`), has another type (`wrong_type`), or a value that is not allowed (`not_allowed`).',
      'A field or query parameter is misspelt: unknown ones are refused, not ignored (`unknown_field`).',
      'A query parameter was given twice (`repeated`), or a text holds a NUL or half a surrogate pair.',
      '`page` is not a whole number from 1, or `page_size` is not within 1 to 100.',
    ],
    fix: [
      'Read `details[].field` (a path such as `policy.allow.0.templateId`) and `details[].message`, which says what the field must be.',
      'Compare with the endpoint in the [API reference](http://127.0.0.1:8080/docs/api). The field is `x-user-id` or `authorization` where a header is meant.',
    ],
    retry: 'never',
    detail: { field: 'email', code: 'invalid_email', message: 'Must be an email address.' },
  },
  malformed_json: {
    means:
      'The body was sent as JSON and is not: it could not be parsed, or it holds what two parsers would read differently.',
    causes: [
      'A trailing comma, single quotes, or a shell that ate the quotes of `-d`.',
      'The content type is JSON and the body is empty: leave the header out, or send `{}`.',
      'An object has a key twice, or one named `__proto__` or `constructor`; or the nesting is deeper than 32.',
    ],
    fix: [
      'Build the body with a JSON library.',
      'With curl put the body in single quotes, or in a file: `-d @body.json`.',
    ],
    retry: 'never',
    detail: { code: 'malformed_json', message: 'The body is not well-formed JSON.' },
  },
  malformed_request: {
    means:
      'The request was refused before any endpoint saw it: it is no HTTP that can be read in only one way, or not addressed to this server.',
    causes: [
      'The path has broken percent-encoding (`%zz`).',
      'Headers are longer than 16 KiB together, or contradict each other (`Content-Length` beside `Transfer-Encoding`).',
      'In development: the `Host` is not a loopback name, `HOST` or that of `HALFKEY_PUBLIC_URL` (`wrong_host`).',
    ],
    fix: [
      'Encode path segments with `encodeURIComponent`.',
      'Behind a tunnel or proxy set `HALFKEY_PUBLIC_URL` to the address that clients use.',
    ],
    retry: 'never',
    detail: {
      field: 'host',
      code: 'wrong_host',
      message: 'In development this server answers to localhost:8080 and other loopback names only.',
    },
  },
  payload_too_large: {
    means: 'The body is larger than 1 MiB. Nothing of it was looked at.',
    causes: ['A file or a list was put into one call.', '`metadata` is used as storage: it takes 16 KiB.'],
    fix: [
      'Split the work into several calls.',
      'Import many users with `halfkey users import` ([users](../users.md#importing)).',
    ],
    retry: 'never',
    detail: { code: 'payload_too_large', message: 'The body is larger than 1 MiB.' },
  },
  unsupported_media_type: {
    means: 'The body came with a content type other than `application/json`.',
    causes: [
      "curl without `-H 'content-type: application/json'` sends form data.",
      'A client sends `text/plain`, or a charset other than UTF-8.',
    ],
    fix: ['Send `Content-Type: application/json`.', 'A POST without a body needs no content type at all.'],
    retry: 'never',
    detail: { field: 'content-type', code: 'unsupported_media_type', message: 'Must be application/json.' },
  },
  api_key_missing: {
    means:
      'Nothing came in the `x-api-key` header. Everything below `/v1` needs a key, health and unknown paths included.',
    causes: [
      'The key was sent as a bearer token, cookie or query parameter: it counts in `x-api-key` only.',
      'The variable that should hold it is empty.',
    ],
    fix: [
      'Send `x-api-key: hk_sk_…` from a server, `hk_pk_…` from a browser.',
      'Print the length of the variable where the call is made, never the key.',
    ],
    retry: 'never',
  },
  api_key_invalid: {
    means:
      'There is no such key that counts. A mistyped, unknown, revoked and expired key get this one answer, so that nobody learns which keys there were.',
    causes: [
      'The key was revoked, rotated without grace, or has passed its `expiresAt`.',
      'A character is missing, or quotes or a line end came along: the last six characters are a checksum.',
      'It is a key of another installation.',
    ],
    fix: [
      'Compare prefix and last four characters with `GET /v1/api-keys` by another key.',
      'Make a new one (`POST /v1/api-keys`). If none is left: `halfkey keys create` on a machine that reaches the database.',
    ],
    retry: 'never',
  },
  insufficient_scope: {
    means: 'The key is good but may not do this. Nothing was looked up.',
    causes: [
      'The key lacks the scope that `details[0].scope` names (`missing_scope`).',
      'The call is for the whole tenant and the key is bound to an app (`tenant_wide_key_required`).',
      'A key tried to make one that may do more than itself (`wider_than_own`).',
    ],
    fix: [
      'Make a key with that scope, and no more than it needs; scopes of a key never change.',
      'For tenant-wide calls use a key without `appId`.',
    ],
    retry: 'never',
    detail: { code: 'missing_scope', message: 'This call needs the scope users:write.', scope: 'users:write' },
  },
  key_type_not_allowed: {
    means: 'A publishable key (`hk_pk_…`) was used where only a secret key may call.',
    causes: ["Server code took the browser's key.", 'A page calls what only a server should, such as listing users.'],
    fix: [
      'Call it from your server with a secret key.',
      'Never put a secret key into a page: what a page has, its visitors have.',
    ],
    retry: 'never',
  },
  origin_not_allowed: {
    means: "A browser made the call from an origin that is not among the app's own.",
    causes: [
      "The app's `allowedOrigins` is empty or lacks this origin: scheme, host and port must be equal.",
      'The page is on a custom domain that is not verified, or not any more.',
    ],
    fix: [
      '`PATCH /v1/apps/:id {"allowedOrigins": ["https://shop.example.com"]}` (the list is replaced, not added to).',
      'Or verify the domain: [custom domains](../custom-domains.md). In development loopback origins are always allowed.',
    ],
    retry: 'never',
  },
  ip_not_allowed: {
    means: 'The key has `allowedIps`, and the call came from another address.',
    causes: [
      'The server moved, or leaves by another address than you think.',
      'A proxy stands between, and the service does not trust its `X-Forwarded-For`.',
    ],
    fix: ['Make a key with the right addresses or CIDRs.', 'Name your proxies in `HALFKEY_TRUSTED_PROXIES`.'],
    retry: 'never',
  },
  not_found: {
    means:
      'There is no such endpoint, or no record of yours with this id. What belongs to another tenant or app gets the same answer, byte for byte, as what does not exist.',
    causes: [
      'The id is of another tenant or app than the key, or was deleted.',
      'The path is misspelt, or takes another method.',
      'An id in the body or query names nothing: then `details[0].field` says which.',
    ],
    fix: [
      "Check with which key the record was made: one bound to an app sees that app's records only.",
      'Compare method and path with the [API reference](http://127.0.0.1:8080/docs/api).',
    ],
    retry: 'never',
    detail: { field: 'appId', code: 'not_found', message: 'No record of yours has this appId.' },
  },
  already_exists: {
    means: 'Something that may be there once is there already. Nothing was changed.',
    causes: [
      'Another user of the app has this `email` or `externalId`. Case and Unicode form make no difference.',
      'The wallet key, the share index or the template name is taken.',
    ],
    fix: [
      '`details[0].field` names the value. Look the record up (`GET /v1/users?search=…`) and use it.',
      'For retries of a create use an `Idempotency-Key`: the repeat then gets the first answer.',
    ],
    retry: 'never',
    detail: { field: 'email', code: 'already_exists', message: 'Another user of this app has this email.' },
  },
  idempotency_conflict: {
    means:
      'This `Idempotency-Key` has been used within 24 hours with another body or query. The first call stands; this one did nothing.',
    causes: [
      'The key is made of something that repeats, such as a user id, for several different calls.',
      'A field with the time or a random value changes with each retry.',
    ],
    fix: [
      'One key for one intention: make it when the user acts, keep it for the retries.',
      'Send exactly the same body when you retry.',
    ],
    retry: 'never',
  },
  idempotency_in_progress: {
    means: 'The first call with this `Idempotency-Key` is still running.',
    causes: ['A client gave up waiting and retried at once.', 'Two processes do the same job.'],
    fix: ["Wait as long as `Retry-After` says (a second) and send the same again: you get the first one's answer."],
    retry: 'later',
  },
  rate_limited: {
    means: 'Too many calls in a short time. Nothing was done.',
    causes: [
      "The limit of the key, or of the client's address at sign-in, is used up: `RateLimit-Policy` says which.",
      'A loop without a pause; or many users behind one address.',
      'Ten unfinished tests of a webhook (`too_many_tests`), or too many calls that wait for each other.',
    ],
    fix: [
      'Wait as long as `Retry-After` says; then go on, more slowly. The SDK does this by itself.',
      'An operator can raise the limits: [rate limits](../rate-limits.md).',
    ],
    retry: 'later',
  },
  internal_error: {
    means:
      'Something failed that should not have. Where the call was to change something, it changed nothing, unless the connection broke at the very end.',
    causes: ['The database was away for a moment, or out of connections.', 'A fault of the program.'],
    fix: [
      'Repeat it with the same `Idempotency-Key`: what was done is not done twice.',
      "If it stays, look for the `X-Request-Id` of the answer in the service's log, which has the cause, and run `halfkey doctor`.",
    ],
    retry: 'safely',
  },
  not_ready: {
    means: 'The service runs and cannot work: `details` names each part that is not as it should be.',
    causes: [
      'The database cannot be reached, or migrations are missing.',
      'No worker has been seen lately.',
      'The process is being stopped.',
    ],
    fix: ['Let the load balancer ask another process.', '`halfkey doctor` says what is wrong, and what to do.'],
    retry: 'later',
    detail: { code: 'not_ready', message: 'The database does not answer.', name: 'database' },
  },
} as const satisfies Record<string, Remedy>

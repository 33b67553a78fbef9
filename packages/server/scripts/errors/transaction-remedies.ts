import type { Remedy } from './remedy.ts'

/** Of delegated sessions and the transactions they make. Refused means: nothing was executed and nothing spent. */
export const TRANSACTION_REMEDIES = {
  policy_denied: {
    means: "The session's policy does not allow this. Nothing was signed.",
    causes: [
      'No `allow` rule covers template, choice and arguments (`rule: "allow"`).',
      'A `deny` rule matches, or an asset is moved that `spend` does not name.',
      'The transaction would do more than the commands say (`rule: "effects"`).',
    ],
    fix: [
      '`details[0].rule` names the rule. The same call with `"dryRun": true` explains every rule in `decision.trace`.',
      'A policy never changes: if it is too narrow, let the owner make another session.',
    ],
    retry: 'never',
    detail: {
      field: 'commands.0',
      code: 'policy_denied',
      message: 'No rule of the policy allows command 0: exercise Token:Holding Split.',
      rule: 'allow',
    },
  },
  spend_limit_exceeded: {
    means: 'The transaction would spend more than is left of a cap. Nothing was spent.',
    causes: [
      'The cap is used up, for good (`lifetime`) or for now (`day_utc`, `rolling_24h`).',
      'Other calls that are under way hold a part of it.',
    ],
    fix: [
      '`details[0]` has `limit`, `spent`, `asked` and `remaining`: ask for no more than that.',
      'Wait for the window, or let the owner make a new session.',
    ],
    retry: 'never',
    detail: {
      code: 'spend_limit_exceeded',
      message: "This would spend 8 USDX; 7 are left of the policy's spend[0].",
      rule: 'spend[0]',
      limit: '10',
      spent: '3',
      asked: '8',
      remaining: '7',
    },
  },
  authorization_missing: {
    means: "The policy allows it, but the ledger does not let this wallet's party do it: another party has to.",
    causes: [
      'A choice of a contract that somebody else controls, such as accepting an offer that one has made oneself.',
      'A contract was to be created in the name of another party.',
    ],
    fix: ["Look in the template who controls the choice, and let a session of that party's wallet do it."],
    retry: 'never',
  },
  contract_not_found: {
    means: 'The wallet sees no contract with this id.',
    causes: ['The id is of another ledger or misspelt.', "The wallet's party is neither signatory nor observer of it."],
    fix: ['Ask for the contracts that there are: `POST /v1/delegated-sessions/:id/query`.'],
    retry: 'never',
  },
  contract_archived: {
    means: 'The contract was there and has been used up. Contracts never change: each use makes new ones.',
    causes: [
      'An earlier transfer took the holding; what was left of it is a new contract.',
      'Two calls raced for it: the other one won.',
    ],
    fix: ['Query again and take the new contract, under a new `commandId` if this one was recorded.'],
    retry: 'never',
    detail: {
      field: 'commands.0.exercise.contractId',
      code: 'contract_archived',
      message: 'This contract was used up already.',
    },
  },
  custody_not_delegable: {
    means: 'Only the owner signs for a `self_custody` wallet, so no session can execute by itself.',
    causes: ['`serverExecute: true` was asked for on such a wallet.'],
    fix: [
      'Leave `serverExecute` out: the session then prepares transactions for the owner to sign.',
      'For an agent that acts alone, use an `embedded` or `shared` wallet.',
    ],
    retry: 'never',
  },
  session_limit_reached: {
    means: 'The wallet has as many active delegated sessions as there may be.',
    causes: ['One is made for each call instead of being kept.', 'Old ones are left to expire.'],
    fix: [
      'Revoke those that are not used: `GET /v1/delegated-sessions?status=active`, `DELETE /v1/delegated-sessions/:id`.',
      "Keep a session's token for its lifetime.",
    ],
    retry: 'never',
  },
  duplicate_command: {
    means: 'This `commandId` was used in this session with other commands. The first transaction stands.',
    causes: ['The id is not unique to what is being done.', 'The commands were changed and the id was not.'],
    fix: [
      'Choose the id out of what is done, such as `order-1043`: the same order, the same id.',
      'For another transaction take another one.',
    ],
    retry: 'never',
    detail: { field: 'commandId', code: 'duplicate_command', message: 'Was used with other commands.' },
  },
  uses_in_flight: {
    means: 'All uses that the session has left are taken by transactions whose outcome is open.',
    causes: ['`maxUses` is nearly used up and calls are made side by side.'],
    fix: ['Wait until they are completed or failed: a failed one gives its use back. Then repeat.'],
    retry: 'later',
  },
  signing_request_superseded: {
    means: 'The key was shared anew after this signature was begun: its parts no longer fit.',
    causes: ['The user reshared while a co-signature was open.'],
    fix: ['Execute again under another `commandId`, with the new share.'],
    retry: 'never',
  },
  transaction_settled: {
    means: 'This transaction waits for no signature: it is completed, failed or expired.',
    causes: ['The signature was sent a second time, or by two devices.'],
    fix: ['Read it: `GET /v1/transactions/:id`.'],
    retry: 'never',
  },
  transaction_failed: {
    means:
      'The ledger refused the transaction, or it was left before it was signed (`abandoned`). It certainly did not happen; what it reserved is free again.',
    causes: ['Something that it needs changed between preparing and submitting.', 'The process ended in between.'],
    fix: [
      'Query what is there now, and execute again under another `commandId`. The old one answers this failure again.',
    ],
    retry: 'never',
    detail: {
      field: 'commands',
      code: 'abandoned',
      message: 'It was left before it was signed. Execute it again under another commandId.',
    },
  },
  prepared_expired: {
    means: 'The prepared transaction was not signed in its time and can no longer happen.',
    causes: ['The owner of a `self_custody` wallet took more than ten minutes, or a co-signature more than two.'],
    fix: ['Execute again under another `commandId`, and sign sooner.'],
    retry: 'never',
  },
  delegated_session_revoked: {
    means: 'The session was revoked. Nothing was signed after that.',
    causes: [
      'Its owner or your server ended it.',
      "The user was suspended, the wallet's key given out, or ten wrong signatures came.",
    ],
    fix: ['Ask the owner for a new session. `GET /v1/transactions?delegated_session_id=…` lists what the old one did.'],
    retry: 'never',
  },
  delegated_session_expired: {
    means: "The session's time is over. Nothing is signed for it any more.",
    causes: ['`expiresInSeconds` has passed: an hour, if it was not set.'],
    fix: ['Ask the owner for a new session, longer if need be (up to 30 days).'],
    retry: 'never',
  },
  delegated_session_exhausted: {
    means: 'The session has made as many transactions as `maxUses` allows.',
    causes: ['Each completed transaction is one use; refusals and dry runs are none.'],
    fix: ['Ask the owner for a new session.'],
    retry: 'never',
  },
  template_unknown: {
    means: 'The ledger has no template of this name that your tenant could use.',
    causes: ['A misspelt `templateId`: it is `Module:Entity`.', 'It was declared by another tenant, or never.'],
    fix: ['`GET /v1/templates` lists them. Declare your own with `POST /v1/templates`.'],
    retry: 'never',
    detail: {
      field: 'commands.0.create.templateId',
      code: 'template_unknown',
      message: 'There is no such template on this ledger.',
    },
  },
  choice_unknown: {
    means: 'The template is there, but has no choice of this name.',
    causes: ['A misspelt choice; case counts.', 'The choice belongs to another template.'],
    fix: ["`GET /v1/templates` lists each template's choices with their arguments."],
    retry: 'never',
    detail: {
      field: 'commands.0.exercise.choice',
      code: 'choice_unknown',
      message: 'The template has no such choice.',
    },
  },
  arguments_invalid: {
    means: 'The arguments are not those that template or choice takes, or break a rule of the template.',
    causes: [
      'A field is missing, unknown or of another type; an amount is a number instead of a text.',
      'An amount is not positive, or larger than the holding.',
    ],
    fix: [
      '`details[0].field` names it, such as `commands.0.exercise.arguments.amount`.',
      'Amounts are decimal strings: `"3"`, at most 10 decimals.',
    ],
    retry: 'never',
    detail: {
      field: 'commands.0.exercise.arguments.amount',
      code: 'arguments_invalid',
      message: 'Must be a positive amount.',
    },
  },
  signature_invalid: {
    means:
      "A signature does not verify under the wallet's key over the bytes in question. For a new wallet the challenge is used up.",
    causes: [
      'Other bytes were signed: a hash of the message, its text with a line end more, or an older one.',
      'Another key than the one that `publicKey` names.',
      'A wrong encoding: 64 bytes as hex or base64.',
    ],
    fix: [
      'Sign the exact UTF-8 bytes of `message`, or the digest that you computed from `preparedTransaction`, by plain Ed25519 (RFC 8032).',
      'For a wallet ask for a new challenge first.',
    ],
    retry: 'never',
    detail: {
      field: 'proof',
      code: 'signature_invalid',
      message: "Is not the key's signature over the challenge's message. The challenge is used up.",
    },
  },
  ledger_unavailable: {
    means:
      'The ledger could not be asked, or did not answer in time. What the transaction spends stays reserved until its outcome is known.',
    causes: ['The ledger, or the network to it, is away.'],
    fix: [
      'Repeat under the **same** `commandId`: if the first call got through, you get its result, not a second transaction. The SDK does this by itself.',
      'Operators: `halfkey doctor`, and the metrics of the ledger.',
    ],
    retry: 'safely',
  },
  template_limit_reached: {
    means: 'The tenant has declared as many templates as it may.',
    causes: ['Each deployment declares new names.'],
    fix: [
      'Declare a template once, and a new version only when it changes: templates are not deleted, since contracts stand on them.',
    ],
    retry: 'never',
  },
} as const satisfies Record<string, Remedy>

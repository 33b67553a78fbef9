/** One endpoint of the specification's section 4, with what the product's caller matrix says of it. */
export interface SpecEndpoint {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  /** What a secret key needs; null where any valid key will do. */
  scope: string | null
  /** The status of success. */
  status: 200 | 201
}

/** `POST /apps apps:write 201`, one a line. */
function table(text: string): SpecEndpoint[] {
  return text
    .trim()
    .split('\n')
    .map((line) => {
      const [method, path, scope, status] = line.trim().split(/\s+/) as [SpecEndpoint['method'], string, string, string]
      return { method, path, scope: scope === '-' ? null : scope, status: Number(status) as 200 | 201 }
    })
}

/** All endpoints of the specification. */
export const SPEC_ENDPOINTS = table(`
  GET    /apps                             apps:read                  200
  POST   /apps                             apps:write                 201
  GET    /apps/:id                         apps:read                  200
  PATCH  /apps/:id                         apps:write                 200
  DELETE /apps/:id                         apps:write                 200
  GET    /users                            users:read                 200
  POST   /users                            users:write                201
  GET    /users/:id                        users:read                 200
  POST   /users/me/wallet                  users:act_as               201
  GET    /users/me/wallet                  users:act_as               200
  GET    /api-keys                         api_keys:read              200
  POST   /api-keys                         api_keys:write             201
  DELETE /api-keys/:id                     api_keys:write             200
  GET    /webhooks                         webhooks:read              200
  POST   /webhooks                         webhooks:write             201
  PATCH  /webhooks/:id                     webhooks:write             200
  DELETE /webhooks/:id                     webhooks:write             200
  POST   /webhooks/:id/test                webhooks:write             200
  GET    /webhooks/:id/deliveries          webhooks:read              200
  POST   /auth/passkey/register-options    auth:write                 200
  POST   /auth/passkey/register-verify     auth:write                 200
  GET    /auth/passkey/login-options       auth:write                 200
  POST   /auth/passkey/login-verify        auth:write                 200
  POST   /auth/messenger/verify            auth:write                 200
  GET    /auth/messenger/widget-config     auth:write                 200
  POST   /guests                           guests:write               201
  GET    /guests/:id                       guests:read                200
  POST   /guests/:id/convert               guests:write               200
  DELETE /guests/:id                       guests:write               200
  POST   /guests/cleanup                   guests:write               200
  POST   /delegated-sessions               users:act_as               201
  GET    /delegated-sessions/:id           delegated_sessions:read    200
  DELETE /delegated-sessions/:id           delegated_sessions:write   200
  POST   /delegated-sessions/:id/execute   delegated_sessions:execute 200
  POST   /delegated-sessions/:id/query     delegated_sessions:execute 200
  POST   /mfa/setup                        users:act_as               200
  POST   /mfa/verify-setup                 users:act_as               200
  POST   /mfa/challenge                    users:act_as               200
  POST   /mfa/verify                       users:act_as               200
  GET    /mfa/status                       users:act_as               200
  DELETE /mfa                              users:act_as               200
  POST   /mpc/shares                       users:act_as               201
  GET    /mpc/shares/:walletId             users:act_as               200
  DELETE /mpc/shares/:walletId             users:act_as               200
  POST   /mpc/recover                      users:act_as               200
  POST   /custom-domains                   custom_domains:write       201
  POST   /custom-domains/verify            custom_domains:write       200
  DELETE /custom-domains                   custom_domains:write       200
  GET    /tenant                           tenant:read                200
  PATCH  /tenant                           tenant:write               200
  GET    /analytics                        analytics:read             200
  POST   /billing/checkout                 billing:write              201
  POST   /billing/portal                   billing:write              201
  GET    /billing/usage                    billing:read               200
  GET    /healthz                          -                          200
  GET    /readyz                           -                          200
`)

/** Endpoints of the specification that are yet to be built. The list can only shrink. */
export const PENDING: readonly string[] = []

/** What we offer beyond the specification, in the same form. */
export const EXTENSIONS = table(`
  PATCH  /users/:id                                 users:write    200
  DELETE /users/:id                                 users:write    200
  POST   /users/me/wallet/challenge                 users:act_as   201
  GET    /users/:id/wallet                          wallets:read   200
  GET    /wallets                                   wallets:read   200
  GET    /wallets/:id                               wallets:read   200
  POST   /wallets/:id/freeze                        wallets:write  200
  POST   /wallets/:id/unfreeze                      wallets:write  200
  GET    /wallets/:id/holdings                      wallets:read   200
  GET    /wallets/:id/transfer-offers               wallets:read   200
  GET    /wallets/:id/transfer-offers/:offerId      wallets:read   200
  POST   /wallets/:id/transfer-offers/:offerId/accept   delegated_sessions:execute 200
  POST   /wallets/:id/transfer-offers/:offerId/reject   delegated_sessions:execute 200
  POST   /wallets/:id/transfer-offers/:offerId/withdraw delegated_sessions:execute 200
  GET    /wallets/:id/onboarding                    users:act_as   200
  POST   /wallets/:id/onboarding                    users:act_as   200
  POST   /auth/refresh                              auth:write     200
  POST   /auth/exchange                             auth:write     200
  POST   /auth/logout                               users:act_as   200
  POST   /auth/id-token                             users:act_as   200
  GET    /auth/sessions                             users:act_as   200
  DELETE /auth/sessions/:id                         users:act_as   200
  GET    /users/:id/sessions                        users:read     200
  POST   /auth/passkey/prove                        users:act_as   200
  GET    /auth/passkeys                             users:act_as   200
  PATCH  /auth/passkeys/:id                         users:act_as   200
  DELETE /auth/passkeys/:id                         users:act_as   200
  GET    /users/:id/passkeys                        users:read     200
  GET    /guests                                    guests:read    200
  GET    /api-keys/:id                              api_keys:read  200
  POST   /api-keys/:id/rotate                       api_keys:write 200
  GET    /custom-domains                            custom_domains:read 200
  GET    /custom-domains/:id                        custom_domains:read 200
  GET    /custom-domains/:id/plan                   custom_domains:read 200
  GET    /webhooks/event-types                      webhooks:read  200
  GET    /webhooks/:id                              webhooks:read  200
  POST   /webhooks/:id/rotate                       webhooks:write 200
  DELETE /webhooks/:id/deliveries                   webhooks:write 200
  POST   /webhooks/:id/deliveries/bulk              webhooks:write 201
  GET    /webhooks/:id/deliveries/:deliveryId       webhooks:read  200
  POST   /webhooks/:id/deliveries/:deliveryId/retry webhooks:write 200
  POST   /webhooks/:id/recover                      webhooks:write 201
  GET    /jobs/:id                                  webhooks:read  200
  GET    /members                                   members:read   200
  POST   /members                                   members:write  201
  GET    /members/:id                               members:read   200
  PATCH  /members/:id                               members:write  200
  DELETE /members/:id                               members:write  200
  POST   /members/:id/link                          members:write  201
  GET    /member-sign-in                            members:read   200
  PATCH  /member-sign-in                            *              200
  GET    /delegated-sessions                        delegated_sessions:read 200
  GET    /transactions                              wallets:read   200
  GET    /transactions/:id                          wallets:read   200
  GET    /templates                                 wallets:read   200
  POST   /templates                                 wallets:write  201
  GET    /templates/:id                             wallets:read   200
  GET    /x402/supported                            payments:settle 200
  POST   /x402/verify                               payments:settle 200
  POST   /x402/settle                               payments:settle 200
  POST   /dev/faucet                                wallets:write  201
  GET    /mpc/config                                -              200
  POST   /mpc/challenge                             users:act_as   201
  PATCH  /mpc/shares/:walletId                      users:act_as   200
  GET    /wallets/:id/custody                       wallets:read   200
  POST   /mpc/dkg                                   users:act_as   201
  GET    /mpc/dkg/:id                               users:act_as   200
  DELETE /mpc/dkg/:id                               users:act_as   200
  POST   /mpc/dkg/:id/round2                        users:act_as   200
  POST   /mpc/dkg/:id/confirm                       users:act_as   201
  GET    /audit-log                                 audit:read     200
  GET    /events                                    webhooks:read  200
  POST   /events                                    events:publish 201
  POST   /events/batch                              events:publish 201
  GET    /apps/:id/logo                             apps:read         200
  POST   /apps/:id/logo                             apps:write        200
  DELETE /apps/:id/logo                             apps:write        200
  GET    /apps/:id/issuers                          apps:read         200
  POST   /apps/:id/issuers                          apps:write        201
  GET    /apps/:id/issuers/:issuerId                apps:read         200
  PATCH  /apps/:id/issuers/:issuerId                apps:write        200
  DELETE /apps/:id/issuers/:issuerId                apps:write        200
  GET    /apps/:id/email-templates                  apps:read         200
  POST   /apps/:id/email-templates/preview          apps:read         200
  PUT    /apps/:id/email-templates/:kind/:language  apps:write        200
  DELETE /apps/:id/email-templates/:kind/:language  apps:write        200
  GET    /apps/:id/providers                        apps:read         200
  POST   /apps/:id/providers                        apps:write        201
  GET    /apps/:id/providers/:providerId            apps:read         200
  PATCH  /apps/:id/providers/:providerId            apps:write        200
  DELETE /apps/:id/providers/:providerId            apps:write        200
  POST   /auth/token/exchange                       auth:write        200
  GET    /auth/identities                           users:act_as      200
  POST   /auth/identities                           users:act_as      201
  DELETE /auth/identities/:id                       users:act_as      200
  GET    /users/:id/identities                      users:read        200
  POST   /auth/email/start                          auth:write        200
  POST   /auth/email/verify                         auth:write        200
  POST   /auth/email/link                           users:act_as      200
  POST   /auth/email/change                         users:act_as      200
  POST   /auth/email/recovery                       auth:write        200
  POST   /auth/email/recovery/cancel                auth:write        200
  GET    /auth/email/recoveries                     users:act_as      200
  GET    /users/:id/recoveries                      users:read        200
  POST   /auth/providers/:id/start                  auth:write        200
  POST   /auth/providers/:id/token                  auth:write        200
  POST   /auth/providers/:id/link                   users:act_as      201
  POST   /auth/wallet/start                         auth:write        200
  POST   /auth/wallet/verify                        auth:write        200
  POST   /auth/wallet/link                          users:act_as      201
  GET    /emails                                    emails:read       200
  GET    /event-types                               event_types:read  200
  POST   /event-types                               event_types:write 201
  GET    /event-types/:id                           event_types:read  200
  PATCH  /event-types/:id                           event_types:write 200
  DELETE /event-types/:id                           event_types:write 200
  GET    /subscribers                               subscribers:read  200
  POST   /subscribers                               subscribers:write 201
  GET    /subscribers/:id                           subscribers:read  200
  PATCH  /subscribers/:id                           subscribers:write 200
  DELETE /subscribers/:id                           subscribers:write 200
  POST   /subscribers/:id/portal-link               subscribers:write 201
  DELETE /subscribers/:id/portal-links              subscribers:write 200
  GET    /events/:id                                webhooks:read  200
  GET    /events/:id/deliveries                     webhooks:read  200
  POST   /webhooks/filters/check                    webhooks:read  200
  POST   /delegated-sessions/validate               delegated_sessions:read 200
  POST   /policies/validate                         delegated_sessions:read 200
  POST   /policies/simulate                         wallets:read 200
  GET    /denials                                   delegated_sessions:read 200
  GET    /delegated-sessions/:id/denials            delegated_sessions:read 200
  GET    /delegated-sessions/me                     delegated_sessions:read 200
  GET    /delegated-sessions/me/transactions        delegated_sessions:read 200
  GET    /delegated-sessions/me/transactions/:id    delegated_sessions:read 200
  GET    /wallets/:id/budgets                       wallets:read              200
  PUT    /wallets/:id/budgets                       wallets:write             200
  GET    /wallets/:id/recipients                    wallets:read              200
  POST   /wallets/:id/recipients                    users:act_as              201
  DELETE /wallets/:id/recipients/:recipientId       wallets:write             200
  GET    /approvals                                 delegated_sessions:read   200
  GET    /approvals/:id                             delegated_sessions:read   200
  POST   /approvals/:id/approve                     users:act_as              200
  POST   /approvals/:id/deny                        users:act_as              200
  POST   /wallets/:id/sessions/revoke-all           delegated_sessions:write 200
  POST   /apps/:id/sessions/revoke-all              delegated_sessions:write 200
  GET    /users/me                                  users:act_as   200
  POST   /users/bulk                                users:write    201
  GET    /users/bulk/:id                            users:read     200
`)

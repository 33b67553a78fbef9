-- More records that carry a MAC: who a session, code or challenge is for, by what an account is signed in to, and the
-- installation's keys, and the settings of apps. What the MAC of these rows covers is never changed, but for issuers, challenges by email and signing keys.
alter table sessions add column mac bytea;
alter table sign_in_codes add column mac bytea;
alter table challenges add column mac bytea;
alter table identities add column mac bytea;
alter table app_issuers add column version integer not null default 0, add column mac bytea;
alter table email_challenges add column version integer not null default 0, add column mac bytea;
alter table apps add column version integer not null default 0, add column mac bytea;
alter table signing_keys add column version integer not null default 0, add column mac bytea;
alter table encryption_keys add column mac bytea;

-- As in 0016: what processes of the release before change loses its MAC.
create trigger app_issuers_forget_mac before update on app_issuers for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version)
execute function forget_mac();

create trigger apps_forget_mac before update on apps for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.allowed_origins, new.allowed_redirect_urls, new.passkey, new.messenger, new.bot_token_sealed is null, new.mfa,
      new.sessions, new.mpc, new.recovery, new.email, new.email_webhook_secret_sealed is null)
    is distinct from (old.allowed_origins, old.allowed_redirect_urls, old.passkey, old.messenger, old.bot_token_sealed is null,
      old.mfa, old.sessions, old.mpc, old.recovery, old.email, old.email_webhook_secret_sealed is null))
execute function forget_mac();

create trigger email_challenges_forget_mac before update on email_challenges for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.wrong_answers, new.ended_at) is distinct from (old.wrong_answers, old.ended_at))
execute function forget_mac();

create trigger signing_keys_forget_mac before update on signing_keys for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.retires_at, new.revoked_at) is distinct from (old.retires_at, old.revoked_at))
execute function forget_mac();

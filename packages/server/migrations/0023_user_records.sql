-- Users carry a MAC, too: by which address they sign in, whether they may, and what they sign in with. So do their second
-- factors, and the step-ups of secret keys.
alter table users add column version integer not null default 0, add column mac bytea;
-- The ids of the user's passkeys and identities, in order, separated by spaces: a row of theirs that is missing, or that has
-- come back, shows. Null in rows from before this migration. A process of the release before does not keep this list, so it
-- counts, as the next ones do, from the moment `halfkey records enforce` has brought it up to date.
alter table users add column credentials text;
-- The version of the user's row of mfa_factors that counts. It never goes back, whatever becomes of the factor.
alter table users add column factor_version integer;

alter table mfa_factors add column version integer not null default 0, add column mac bytea;
-- SHA-256 over the hashes of the recovery codes that are not used, in order. Null in rows from before this migration.
alter table mfa_factors add column recovery_digest bytea;

alter table server_verifications add column mac bytea;

-- As in 0016: what processes of the release before change loses its MAC.
create trigger users_forget_mac before update on users for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.email, new.email_key, new.email_verified, new.external_id, new.status, new.guest, new.guest_ended, new.mfa_enabled)
    is distinct from (old.email, old.email_key, old.email_verified, old.external_id, old.status, old.guest, old.guest_ended,
      old.mfa_enabled))
execute function forget_mac();

create trigger mfa_factors_forget_mac before update on mfa_factors for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.secret_sealed is null, new.pending_until, new.last_step, new.failures, new.locked_until, new.enabled_at)
    is distinct from (old.secret_sealed is null, old.pending_until, old.last_step, old.failures, old.locked_until, old.enabled_at))
execute function forget_mac();

create trigger server_verifications_forget_mac before update on server_verifications for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.mfa_at <> old.mfa_at)
execute function forget_mac();

-- Sessions' records cover their times and their revocation, too, so what has a MAC over less counts as a row without one.
alter table sessions drop column mac;
alter table sessions add column version integer not null default 0, add column mac bytea;
create trigger sessions_forget_mac before update on sessions for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.signed_in_at, new.mfa_at, new.passkey_at, new.issuer_mfa_at, new.revoked_at)
    is distinct from (old.signed_in_at, old.mfa_at, old.passkey_at, old.issuer_mfa_at, old.revoked_at))
execute function forget_mac();

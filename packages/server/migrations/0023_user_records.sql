-- Users carry a MAC, too: by which address they sign in, whether they may, and whether they have a second factor.
alter table users add column version integer not null default 0, add column mac bytea;

-- As in 0016: what processes of the release before change loses its MAC.
create trigger users_forget_mac before update on users for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.email, new.email_key, new.email_verified, new.external_id, new.status, new.guest, new.guest_ended, new.mfa_enabled)
    is distinct from (old.email, old.email_key, old.email_verified, old.external_id, old.status, old.guest, old.guest_ended,
      old.mfa_enabled))
execute function forget_mac();

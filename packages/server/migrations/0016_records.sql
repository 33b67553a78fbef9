-- Records that say who may use a key carry a MAC (HMAC-SHA-256) under a key that the database holds only sealed. `mac` is null
-- in rows from before this migration, and one byte in rows that an act ended although they did not verify. `version` is in the
-- MAC and grows with each change, so that an older row is not taken for the present one.

-- The MAC keys, one per tenant; the empty id is the installation's own.
create table record_keys (
  tenant_id text collate "C" primary key,
  key_sealed bytea not null,
  created_at timestamptz not null
);

alter table api_keys add column version integer not null default 0, add column mac bytea;
alter table passkeys add column mac bytea;
alter table wallets add column version integer not null default 0, add column mac bytea;
alter table key_shares add column version integer not null default 0, add column mac bytea;
alter table delegated_sessions add column mac bytea;
alter table transactions add column version integer not null default 0, add column mac bytea;
alter table dashboard_links add column version integer not null default 0, add column mac bytea;
alter table dashboard_sessions add column mac bytea;

-- During an upgrade, processes of the release before change rows and leave the MAC as it is. Such a row then has none: it
-- counts until `halfkey records enforce` has run, and never after it. A later release drops these triggers.
create function forget_mac() returns trigger language plpgsql as $$
begin
  new.mac := null;
  return new;
end $$;

create trigger api_keys_forget_mac before update on api_keys for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.hash, new.previous_hash, new.previous_until, new.revoked_at)
    is distinct from (old.hash, old.previous_hash, old.previous_until, old.revoked_at))
execute function forget_mac();

create trigger wallets_forget_mac before update on wallets for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.status, new.frozen_at, new.generation, new.threshold, new.total, new.exported_at, new.recovery_tried_at,
      new.recovery_strikes, new.recovery_after)
    is distinct from (old.status, old.frozen_at, old.generation, old.threshold, old.total, old.exported_at,
      old.recovery_tried_at, old.recovery_strikes, old.recovery_after))
execute function forget_mac();

create trigger key_shares_forget_mac before update on key_shares for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and (new.protection, new.status, new.client_ciphertext::text)
    is distinct from (old.protection, old.status, old.client_ciphertext::text))
execute function forget_mac();

create trigger delegated_sessions_forget_mac before update on delegated_sessions for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac
  and (new.version, new.wrong_signatures) is distinct from (old.version, old.wrong_signatures))
execute function forget_mac();

create trigger transactions_forget_mac before update on transactions for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and new.status is distinct from old.status)
execute function forget_mac();

create trigger dashboard_links_forget_mac before update on dashboard_links for each row
when (octet_length(old.mac) > 1 and new.mac is not distinct from old.mac and new.version = old.version
  and new.used_at is distinct from old.used_at)
execute function forget_mac();

-- The ids of the wallet's delegated sessions that are live, in order, separated by spaces: a session that was revoked stays so
-- when its earlier row comes back. Null in rows from before this migration. One that has expired may stand in it until another
-- one is created.
alter table wallets add column sessions text;
create index wallets_sessions on wallets (tenant_id, app_id, id) where sessions <> '';

-- The ids of the wallet's delegated sessions that are live, in order, separated by spaces: a session that was revoked stays so
-- when its earlier row comes back. Null in rows from before this migration. One that has expired may stand in it until another
-- one is created.
alter table wallets add column sessions text;
create index wallets_sessions on wallets (tenant_id, app_id, id) where sessions <> '';

-- The version of its session that a transaction made: a session is never older than its transactions. Null in rows from before
-- this migration, and in those that reserve nothing yet.
alter table transactions add column session_version integer;
create index transactions_session on transactions (delegated_session_id, session_version) where session_version is not null;

-- Templates carry a MAC: contracts of a template that somebody changed before them would do what it says.
alter table ledger_templates add column mac bytea;

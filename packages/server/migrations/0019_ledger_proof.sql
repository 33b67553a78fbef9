-- What the id of a contract commits to beside its contents. Null for contracts of earlier versions, whose ids commit to
-- nothing: they begin with 00, the others with 01.
alter table ledger_contracts add column seed bytea;
alter table ledger_contracts add column index integer;

-- The key that signs the heads of the tenant's audit log and ledger. Made at first use; the ledger-node key signs it.
alter table tenants add column proof_public_key bytea;
alter table tenants add column proof_key_sealed bytea;
alter table tenants add column proof_delegation bytea;
-- When the key was made: a head of the audit log that is signed by the ledger-node key is older.
alter table tenants add column proof_key_at timestamptz;
-- When the chain of ledger updates began. From then on a missing head is a fault.
alter table tenants add column ledger_chain_at timestamptz;

-- The order in which ledger updates were seen after their commit. Each hash covers the hash before it.
create table ledger_chain (
  tenant_id text collate "C" not null,
  -- From 1, without a gap.
  seq bigint not null,
  update_id text collate "C" not null,
  "offset" bigint not null,
  hash bytea not null,
  primary key (tenant_id, seq)
);
create unique index ledger_chain_update on ledger_chain (tenant_id, update_id);

-- The chain's end, signed by the tenant's proof key, and how far the updates were read.
create table ledger_heads (
  tenant_id text collate "C" primary key,
  seq bigint not null,
  hash bytea not null,
  signature bytea not null,
  signed_at timestamptz not null,
  read_xid xid8 not null default '0',
  read_offset bigint not null default 0
) with (fillfactor = 20);

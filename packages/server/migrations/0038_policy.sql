-- Conditions of policies: the address books of wallets, and how often a wallet's owner is asked.

-- How often all sessions of a wallet have asked lately, and what waits for its owner.
create index approvals_wallet_recent on approvals (tenant_id, wallet_id, created_at);
create index approvals_wallet_pending on approvals (tenant_id, wallet_id) where status = 'pending';

-- The address books of wallets: whom their delegated sessions may pay, where a policy says so. Rows are added and removed,
-- never changed.
create table wallet_recipients (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  wallet_id text collate "C" not null,
  -- A party.
  recipient text not null,
  label text not null,
  -- From then on it counts: after a cooling-off time.
  counts_from timestamptz not null,
  created_at timestamptz not null,
  mac bytea,
  primary key (tenant_id, id),
  constraint wallet_recipients_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
create unique index wallet_recipients_wallet on wallet_recipients (tenant_id, wallet_id, recipient);
call count_changes_of('wallet_recipients');

-- The ids of these, in order, separated by spaces: an entry that was removed stays so when its row comes back. Null as long as
-- there was none.
alter table wallets add column recipients text;

-- How long a new entry of an address book waits before it counts: {coolingOffSeconds}.
alter table apps add column address_book jsonb not null default '{"coolingOffSeconds": 86400}';

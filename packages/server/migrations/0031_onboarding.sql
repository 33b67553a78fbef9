-- What a wallet's user has to sign before its party is on the ledger. Gone once it is.
create table wallet_onboardings (
  tenant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  -- What the ledger prepared: what is to be signed is read out of these bytes.
  prepared bytea not null,
  -- The user's, until they are handed to the ledger.
  signatures json,
  -- Past this it is prepared again.
  expires_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, wallet_id),
  constraint wallet_onboardings_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
alter table wallet_onboardings add column version integer not null default 0, add column mac bytea;

-- What wallets hold on ledgers that are followed. A view: the ledger decides, and all of it can be read again.

-- How far each ledger was read.
create table token_cursors (
  ledger text collate "C" primary key,
  -- Grows when all is to be read again: after pruning, after the ledger was restored, and with other settings.
  generation integer not null,
  -- What counts as a holding, as text.
  scope text not null,
  ledger_offset bigint not null,
  -- The ledger's time there, where it says it.
  ledger_at timestamptz,
  -- The last update of tokens: a ledger that was restored has another one at this offset.
  last_offset bigint,
  last_update_id text,
  -- When it was read the last time.
  read_at timestamptz not null
);

-- The wallets that are followed.
create table token_views (
  tenant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  ledger text collate "C" not null,
  party_id text collate "C" not null,
  -- The generation of the cursor in which all its holdings were read; it is followed from then on.
  generation integer not null,
  -- Why its holdings cannot be read.
  problem text,
  primary key (tenant_id, wallet_id),
  constraint token_views_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
create index token_views_party on token_views (ledger, party_id);

create table token_holdings (
  tenant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  contract_id text collate "C" not null,
  ledger text collate "C" not null,
  admin text collate "C" not null,
  instrument text collate "C" not null,
  amount numeric(38, 10) not null,
  -- Null while it can be spent.
  lock json,
  -- By the ledger's clock.
  created_at timestamptz not null,
  -- When it was seen that it is gone. Kept for a while: what is read again must not be new again.
  archived_at timestamptz,
  primary key (tenant_id, wallet_id, contract_id),
  constraint token_holdings_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
create index token_holdings_contract on token_holdings (contract_id) where archived_at is null;
create index token_holdings_page on token_holdings (tenant_id, wallet_id, created_at, contract_id) where archived_at is null;
create index token_holdings_archived on token_holdings (archived_at) where archived_at is not null;

-- Finds the wallets that are not followed yet.
create index wallets_on_ledgers on wallets (ledger) where status = 'ready' and ledger <> 'embedded';

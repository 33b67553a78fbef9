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
  read_at timestamptz not null,
  -- When the generation began, and when the scope did.
  begun_at timestamptz not null,
  scope_at timestamptz not null,
  -- Since when an update is missing that could not be read: all is to be read again.
  stale_since timestamptz
);

-- The wallets that are followed, or are to be.
create table token_views (
  tenant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  ledger text collate "C" not null,
  party_id text collate "C" not null,
  -- The last generation of the cursor in which all its holdings were read, from which on it is followed; 0 for none.
  generation integer not null default 0,
  -- What counted then, by registry.
  scopes text[] not null default '{}',
  -- Until it is read: not before this time, and how often in succession it failed.
  due_at timestamptz not null default now(),
  failures integer not null default 0,
  -- Why its holdings cannot be read.
  problem text,
  primary key (tenant_id, wallet_id),
  constraint token_views_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
create index token_views_party on token_views (ledger, party_id);
create index token_views_due on token_views (ledger, generation, due_at);

-- Wallets are queued when they are ready: nobody has to look through all of them for those that are new.
create function queue_token_view() returns trigger language plpgsql as $$
begin
  insert into token_views (tenant_id, wallet_id, ledger, party_id)
  values (new.tenant_id, new.id, new.ledger, new.party_id) on conflict do nothing;
  return null;
end $$;
create trigger queue_token_view after insert or update of status on wallets
  for each row when (new.status = 'ready' and new.ledger <> 'embedded') execute function queue_token_view();
insert into token_views (tenant_id, wallet_id, ledger, party_id)
select tenant_id, id, ledger, party_id from wallets where status = 'ready' and ledger <> 'embedded';

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

-- Transfers of tokens in two steps that wallets have made or were offered, on ledgers that are followed. A view, as the holdings are.
create table token_offers (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  wallet_id text collate "C" not null,
  ledger text collate "C" not null,
  -- The contract by which it is answered now, and the first one of the same transfer.
  contract_id text collate "C" not null,
  original_id text collate "C" not null,
  -- incoming, outgoing
  direction text not null,
  sender text collate "C" not null,
  receiver text collate "C" not null,
  admin text collate "C" not null,
  instrument text collate "C" not null,
  amount numeric(38, 10) not null,
  requested_at timestamptz not null,
  execute_before timestamptz not null,
  -- receiver, others
  awaits text not null,
  -- What the sender wrote. Null if it was too much.
  meta json,
  -- By the ledger's clock.
  created_at timestamptz not null,
  -- open, accepted, rejected, withdrawn, expired; ended if nobody knows how
  status text not null,
  -- The last status but open that an event told, or that was not to be told: what is read again must not be told again.
  told text,
  -- The update that ended it, where it is known.
  update_id text,
  ended_at timestamptz,
  -- When it was seen that its contract is gone. Kept for a while.
  archived_at timestamptz,
  primary key (tenant_id, id),
  constraint token_offers_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
create unique index token_offers_original on token_offers (tenant_id, wallet_id, admin, original_id);
create index token_offers_page on token_offers (tenant_id, wallet_id, id);
create index token_offers_contract on token_offers (contract_id);
create index token_offers_due on token_offers (ledger, execute_before) where status = 'open';
create index token_offers_archived on token_offers (archived_at) where archived_at is not null;

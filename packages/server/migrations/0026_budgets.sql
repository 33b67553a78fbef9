-- Budgets of wallets, above their delegated sessions: what all sessions of a wallet together may spend.

-- What each wallet of an app may spend, beside its own budgets: {limits: [{asset, amount, window, recipient, templateId}]}.
alter table apps add column budgets jsonb not null default '{"limits": []}';

-- The wallet's own: {limits: [{asset, amount, window, recipient, templateId, setBy}]}. Null as long as nothing was counted for
-- the wallet. Otherwise it has a row in wallet_spending: one that is missing was deleted.
alter table wallets add column budgets jsonb;

-- What all sessions of a wallet together have spent or reserved, by budget, then by bucket of its window.
create table wallet_spending (
  tenant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  spent json not null,
  updated_at timestamptz not null,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, wallet_id),
  constraint wallet_spending_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
) with (fillfactor = 50);

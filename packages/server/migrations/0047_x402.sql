-- Payments by x402 that were settled: each transaction of the ledger pays for one request.
create table payment_settlements (
  tenant_id text collate "C" not null,
  update_id text collate "C" not null,
  settled_at timestamptz not null,
  -- From then on the payment is refused for its age.
  expires_at timestamptz not null,
  primary key (tenant_id, update_id)
);
create index payment_settlements_age on payment_settlements using brin (expires_at) with (autosummarize = on);

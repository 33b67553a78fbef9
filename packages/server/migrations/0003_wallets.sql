-- JSON is kept as text: what is answered again has the same bytes, and nothing is looked up inside it.

create table wallets (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  ledger text not null,
  custody text not null,
  party_id text not null,
  address text,
  -- Raw. The ledger node's for `embedded` custody, else the wallet's own.
  public_key bytea,
  curve text not null,
  -- Of the key's shares; null where the key is not shared.
  threshold smallint,
  total smallint,
  generation integer,
  -- pending until its party is on the ledger, then ready, or failed.
  status text not null,
  frozen_at timestamptz,
  -- When its party is next to be allocated, while pending.
  onboard_at timestamptz,
  onboard_attempts integer not null default 0,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint wallets_user_fk foreign key (tenant_id, user_id) references users on delete cascade
) with (fillfactor = 90);
-- One wallet a user.
create unique index wallets_user on wallets (tenant_id, user_id);
-- Here and below: what is found by its own key has no second index that begins like it, which the planner could take for it.
create index wallets_app on wallets (app_id, id);
create index wallets_onboarding on wallets (onboard_at) where status = 'pending';

create table delegated_sessions (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  wallet_id text collate "C" not null,
  name text,
  -- SHA-256 of the token.
  token_hash bytea not null,
  -- As it was given, checked; never changed.
  policy json not null,
  -- Whether a secret key alone may execute.
  server_execute boolean not null,
  max_uses integer,
  -- Raised by whatever changes what the session may do: what was decided on one version is not written on another.
  version integer not null default 0,
  -- Transactions that were reserved and did not fail, and how many of them are completed.
  uses integer not null default 0,
  completed integer not null default 0,
  -- What was spent, in base units: by the index of the policy's spend entry, then by the window's bucket.
  spent json not null default '{}',
  -- When a denial by each rule was last told of.
  denials jsonb not null default '{}',
  status text not null default 'active',
  last_used_at timestamptz,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint delegated_sessions_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
) with (fillfactor = 60);
create index delegated_sessions_wallet on delegated_sessions (wallet_id, id);
create index delegated_sessions_app on delegated_sessions (app_id, id);
create index delegated_sessions_open on delegated_sessions (expires_at) where status = 'active';

create table transactions (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  wallet_id text collate "C" not null,
  party_id text not null,
  delegated_session_id text collate "C" not null,
  ledger text not null,
  command_id text collate "C" not null,
  -- SHA-256 of the commands: what makes a repeat the same.
  commands_hash bytea not null,
  -- received → reserved → submitted → completed | failed; signature_required instead of submitted where the user signs.
  status text not null,
  operations json not null,
  effects json not null default '[]',
  -- What it reserves of the session's caps, in base units by the index of the spend entry and its bucket.
  spends json not null default '[]',
  -- While it is open: what was asked, what is to be signed, and the signatures.
  commands json,
  prepared bytea,
  signatures json,
  expires_at timestamptz,
  -- When somebody is to look what became of it, while it is open.
  check_at timestamptz,
  -- What was left of the session's caps, as first answered.
  remaining json,
  update_id text,
  ledger_offset bigint,
  error json,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  completed_at timestamptz,
  primary key (tenant_id, id),
  constraint transactions_session_fk foreign key (tenant_id, delegated_session_id) references delegated_sessions on delete cascade
  -- Rows of some kilobytes stay as they are: compressing them costs more than writing them.
) with (fillfactor = 90, toast_tuple_target = 8160);
create unique index transactions_command on transactions (delegated_session_id, command_id);
create index transactions_wallet on transactions (wallet_id, id);
create index transactions_open on transactions (check_at) where check_at is not null;



-- The embedded ledger. One sequence for all tenants: what depends on something that was committed has a greater offset,
-- and no transaction waits for another one's.
create sequence ledger_offsets;

create table ledger_contracts (
  tenant_id text collate "C" not null,
  contract_id text collate "C" not null,
  template_id text collate "C" not null,
  arguments json not null,
  signatories text[] not null,
  observers text[] not null,
  created_offset bigint not null,
  archived_offset bigint,
  primary key (tenant_id, contract_id)
) with (fillfactor = 80);

-- Who sees which active contract.
create table ledger_stakes (
  tenant_id text collate "C" not null,
  party text collate "C" not null,
  template_id text collate "C" not null,
  created_offset bigint not null,
  contract_id text collate "C" not null,
  primary key (tenant_id, party, template_id, created_offset, contract_id)
  -- The newest contracts are the first to be used up: what they leave in the index lies where every query begins.
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

create table ledger_updates (
  tenant_id text collate "C" not null,
  "offset" bigint not null,
  update_id text collate "C" not null,
  act_as text collate "C" not null,
  command_id text collate "C" not null,
  -- The bytes whose digest was signed, and the signatures.
  prepared bytea not null,
  signatures json not null,
  recorded_at timestamptz not null,
  -- Those who follow read by it: what an earlier snapshot could not see is in the next reading.
  xid xid8 not null default pg_current_xact_id(),
  -- One transaction for each command of a party.
  primary key (tenant_id, act_as, command_id)
) with (toast_tuple_target = 8160);
create index ledger_updates_xid on ledger_updates (tenant_id, xid, "offset");

-- Templates that tenants declare. A template is never changed: contracts of it live on.
create table ledger_templates (
  tenant_id text collate "C" not null references tenants on delete cascade,
  template_id text collate "C" not null,
  definition json not null,
  created_at timestamptz not null,
  primary key (tenant_id, template_id)
);

-- Approvals: what a delegated session asks its wallet's owner for, and how the owner decided.

-- An approval has the id of its transaction, which holds what is reserved meanwhile, with another prefix.
create table approvals (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  wallet_id text collate "C" not null,
  delegated_session_id text collate "C" not null,
  -- The first rule of the policy that asks for it.
  rule text not null,
  -- pending → executed | denied | expired | canceled | failed.
  status text not null,
  -- What the owner approves: its digest is the challenge of the assertion.
  document json not null,
  -- Who is paid, out of the document.
  recipients text[] not null,
  expires_at timestamptz not null,
  -- Why the owner refused.
  reason text,
  -- With which passkey the owner approved, and its assertion.
  passkey_id text,
  assertion json,
  decided_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, id),
  constraint approvals_session_fk foreign key (tenant_id, delegated_session_id) references delegated_sessions on delete cascade
);
-- One open request for each rule of a session.
create unique index approvals_pending on approvals (tenant_id, delegated_session_id, rule) where status = 'pending';
create index approvals_session on approvals (tenant_id, delegated_session_id, id);
create index approvals_user on approvals (tenant_id, user_id, id);
create index approvals_wallet on approvals (tenant_id, wallet_id, id);
create index approvals_recipients on approvals using gin (recipients) where status = 'executed';

-- From when a passkey may approve. Null: never, because a server took part in its creation, or nobody knows.
alter table passkeys add column approves_at timestamptz;

-- Those of a session that has ended are looked for when it ends.
create index transactions_awaiting on transactions (delegated_session_id) where status = 'approval_required';

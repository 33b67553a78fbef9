-- What delegated sessions were refused: one row per session, rule and minute, for "why was this refused?".
create table denials (
  tenant_id text collate "C" not null,
  session_id text collate "C" not null,
  minute timestamptz not null,
  rule text not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  wallet_id text collate "C" not null,
  code text not null,
  -- Of the last one: message, command, and what was asked for and what was left.
  message text not null,
  command integer,
  facts jsonb not null,
  n bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  primary key (tenant_id, session_id, minute, rule),
  foreign key (tenant_id, session_id) references delegated_sessions on delete cascade
);
create index denials_newest on denials (tenant_id, minute);
create index denials_of_user on denials (tenant_id, user_id, minute);
create index denials_of_wallet on denials (tenant_id, wallet_id, minute);
create index denials_age on denials using brin (minute) with (autosummarize = on);

-- The audit log of one user.
create index audit_entries_of_user on audit_entries (tenant_id, user_id, seq) where user_id is not null;

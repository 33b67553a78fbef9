-- Recovery of an account whose passkeys are lost, by its confirmed email and a wait.
alter table apps add column email_recovery jsonb not null default '{"enabled": false, "waitHours": 72}';

create table email_recoveries (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  -- The address that asked, in the form in which users' emails are compared. A new address starts the wait anew.
  email_key text not null,
  language text not null,
  -- pending → completed | canceled | expired.
  status text not null,
  -- Fixed when it is asked for: a setting that is relaxed later shortens no wait. A late reminder moves it.
  available_at timestamptz not null,
  expires_at timestamptz not null,
  -- When the user was told of its start, and of its approaching end. Without both, it never becomes ready.
  told_at timestamptz,
  reminded_at timestamptz,
  -- When a worker has to send the next notice or to end it; null if nothing is left to do.
  due_at timestamptz,
  ended_at timestamptz,
  -- What canceled it.
  ended_by text,
  -- The passkey that completed it.
  passkey_id text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, id),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade,
  constraint email_recoveries_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);
create unique index email_recoveries_pending on email_recoveries (tenant_id, user_id) where status = 'pending';
create index email_recoveries_due on email_recoveries (due_at) where due_at is not null;
create index email_recoveries_user on email_recoveries (tenant_id, user_id, id);
create index email_recoveries_app on email_recoveries (tenant_id, app_id);
create index email_recoveries_age on email_recoveries using brin (created_at) with (autosummarize = on);

call count_changes_of('email_recoveries');

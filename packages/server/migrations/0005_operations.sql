-- How far each follower of the feed has got with each tenant's events.
create table feed_cursors (
  tenant_id text collate "C" not null,
  follower text collate "C" not null,
  seq bigint not null,
  primary key (tenant_id, follower)
) with (fillfactor = 20);

create table custom_domains (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  -- Lower case, punycode, no trailing dot.
  domain text collate "C" not null,
  -- pending until its record was seen, then verified, or failed once it has been missing for too long.
  status text not null,
  -- What the TXT record has to say: new at every registration.
  token text not null,
  -- Why the last look did not find it.
  error text,
  last_checked_at timestamptz,
  -- When the service looks by itself.
  next_check_at timestamptz,
  -- Since when a verified domain's record has been seen to be missing.
  missing_since timestamptz,
  verified_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint custom_domains_app_fk foreign key (tenant_id, app_id) references apps on delete cascade
);
create unique index custom_domains_domain on custom_domains (tenant_id, domain);
-- Whoever proves it first has it.
create unique index custom_domains_verified on custom_domains (domain) where status = 'verified';
create index custom_domains_app on custom_domains (tenant_id, app_id);
create index custom_domains_due on custom_domains (next_check_at) where next_check_at is not null;

-- A day's counters, of an app and, with app_id '', of the whole tenant.
create table analytics_daily (
  tenant_id text collate "C" not null,
  app_id text collate "C" not null,
  day date not null,
  new_users bigint not null default 0,
  -- New too, but without an event: a count of the events is not to take them away.
  users_imported bigint not null default 0,
  active_users bigint not null default 0,
  -- Of the users who were ever active, those whose last active day this is: its sum from a day on counts each user once.
  last_active_users bigint not null default 0,
  sign_ins_passkey bigint not null default 0,
  sign_ins_messenger bigint not null default 0,
  guests bigint not null default 0,
  guests_converted bigint not null default 0,
  wallets_created bigint not null default 0,
  transactions_completed bigint not null default 0,
  transactions_failed bigint not null default 0,
  deliveries_succeeded bigint not null default 0,
  deliveries_failed bigint not null default 0,
  api_requests bigint not null default 0,
  primary key (tenant_id, app_id, day)
) with (fillfactor = 70);

-- Who was active when: a row a user.
create table analytics_active_users (
  tenant_id text collate "C" not null,
  user_id text collate "C" not null,
  app_id text collate "C" not null,
  last_day date not null,
  -- Which of the 31 days up to the last one: bit 0 is the last, bit 1 the day before it.
  days integer not null,
  primary key (tenant_id, user_id)
) with (fillfactor = 80);

-- Counts of what is no event: appended by who counts, and drained into what they are added to, so that no two wait for a row.
create table tallies (
  tenant_id text collate "C" not null,
  app_id text collate "C",
  metric text not null,
  n bigint not null,
  at timestamptz not null default now()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Who did what to what, from where. Each entry's hash covers its own text and the hash before it.
create table audit_entries (
  tenant_id text collate "C" not null,
  -- From 1, without a gap.
  seq bigint not null,
  id text collate "C" not null,
  at timestamptz not null,
  -- A user, an API key, a delegated session, or `system`, `cli`, `first start`.
  actor text collate "C" not null,
  key_id text collate "C",
  action text collate "C" not null,
  -- The record that it is about.
  target text collate "C" not null,
  -- The user by whom or about whom it is: their deletion erases the address.
  user_id text collate "C",
  app_id text collate "C",
  -- Null for what is no event.
  event_id text collate "C",
  request_id text,
  -- Where it came from. The chain holds a salted hash of it alone, so that it can be erased.
  address text,
  address_salt bytea,
  address_hash bytea,
  -- Of the entry before; null for the first.
  previous_hash bytea,
  hash bytea not null,
  primary key (tenant_id, seq)
);
create index audit_entries_actor on audit_entries (tenant_id, actor, seq);
create index audit_entries_action on audit_entries (tenant_id, action, seq);
create index audit_entries_target on audit_entries (tenant_id, target, seq);
create index audit_entries_app on audit_entries (tenant_id, app_id, seq);
-- Entries lie nearly in the order of their times.
create index audit_entries_at on audit_entries using brin (at) with (autosummarize = on);
-- What a user's deletion erases; and which deletions there were.
create index audit_entries_user on audit_entries (tenant_id, user_id) where address is not null;
create index audit_entries_deletions on audit_entries (tenant_id, target) where action in ('user.deleted', 'app.deleted');

-- The chain's end, signed by the tenant's ledger-node key: entries cannot be cut off or written anew without it.
create table audit_heads (
  tenant_id text collate "C" primary key,
  seq bigint not null,
  hash bytea not null,
  -- Null before the first entry.
  signature bytea,
  signed_at timestamptz
) with (fillfactor = 20);

-- How many entries there are of a day, and of an hour: what a list's total is added up from.
create table audit_counts (
  tenant_id text collate "C" not null,
  -- 24 or 1.
  hours smallint not null,
  begins timestamptz not null,
  -- '' for none.
  app_id text collate "C" not null,
  action text collate "C" not null,
  -- '' for users and delegated sessions, of which there are many with a few entries each.
  actor text collate "C" not null,
  n bigint not null,
  primary key (tenant_id, hours, begins, app_id, action, actor)
) with (fillfactor = 50);

-- Acts that are no events, written with what they do, until they are entries.
create table audit_notes (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  at timestamptz not null,
  action text collate "C" not null,
  target text collate "C" not null,
  user_id text collate "C",
  app_id text collate "C",
  context jsonb not null,
  primary key (tenant_id, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What a payment processor knows of a tenant.
create table subscriptions (
  tenant_id text collate "C" primary key references tenants on delete cascade,
  customer_id text not null,
  subscription_id text,
  status text,
  period_start timestamptz,
  period_end timestamptz,
  -- Grows with each state that was taken over. A state is only taken over if none was since before it was asked for.
  version bigint not null default 0,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create unique index subscriptions_customer on subscriptions (customer_id);
-- Whose state was not asked for in a while.
create index subscriptions_asked on subscriptions (updated_at);

-- Events of the processor that were taken: each once.
create table processor_events (
  id text collate "C" primary key,
  received_at timestamptz not null
);
create index processor_events_age on processor_events (received_at);

-- What a tenant has used of a meter in a period; the period '-infinity' holds what is there now, such as users.
create table usage_meters (
  tenant_id text collate "C" not null,
  meter text not null,
  period_start timestamptz not null,
  used bigint not null default 0,
  -- The highest percentage of the quota that was told of: 0, 80, 100.
  announced smallint not null default 0,
  primary key (tenant_id, meter, period_start)
) with (fillfactor = 50);

-- Imports of files, by the file's own id: how far each has got.
create table imports (
  id text collate "C" primary key,
  tenant_id text collate "C" not null,
  position bigint not null default 0,
  state json not null default '{}',
  created_at timestamptz not null,
  finished_at timestamptz
);

-- A user's `user.created`: the one event that says who they are. Blanked when they are erased.
alter table users add column created_event_id text collate "C";

-- Events of erased users that are to be blanked: as soon as nothing is left to be sent of them, for what is sent again must
-- be the same bytes.
create table erasures (
  tenant_id text collate "C" not null,
  event_id text collate "C" not null,
  -- When it is looked at (again): the longer it waits, the more seldom.
  due_at timestamptz not null default now(),
  noted_at timestamptz not null default now(),
  primary key (tenant_id, event_id)
);
create index erasures_due on erasures (due_at);

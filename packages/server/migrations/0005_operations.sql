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
create index custom_domains_due on custom_domains (next_check_at) where next_check_at is not null;

-- A day's counters, of an app and, with app_id '', of the whole tenant.
create table analytics_daily (
  tenant_id text collate "C" not null,
  app_id text collate "C" not null,
  day date not null,
  new_users bigint not null default 0,
  active_users bigint not null default 0,
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

-- Who was active on a day: each counts once.
create table analytics_active_users (
  tenant_id text collate "C" not null,
  day date not null,
  user_id text collate "C" not null,
  primary key (tenant_id, day, user_id)
);

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
  -- A user, an API key, a delegated session, or `system`, `cli`, `processor`.
  actor text not null,
  key_id text collate "C",
  action text not null,
  target text not null,
  app_id text collate "C",
  event_id text collate "C" not null,
  request_id text,
  -- Where it came from. The chain holds a salted hash of it alone, so that it can be erased.
  address text,
  address_salt bytea,
  address_hash bytea,
  hash bytea not null,
  primary key (tenant_id, seq)
);
create unique index audit_entries_id on audit_entries (id);
create index audit_entries_actor on audit_entries (tenant_id, actor, seq);
create index audit_entries_action on audit_entries (tenant_id, action, seq);
create index audit_entries_target on audit_entries (tenant_id, target, seq);

-- The chain's end, signed by the tenant's ledger-node key: entries cannot be cut off or written anew without it.
create table audit_heads (
  tenant_id text collate "C" primary key,
  seq bigint not null,
  hash bytea not null,
  signature bytea not null,
  signed_at timestamptz not null
) with (fillfactor = 20);

-- What a payment processor knows of a tenant.
create table subscriptions (
  tenant_id text collate "C" primary key references tenants on delete cascade,
  customer_id text not null,
  subscription_id text,
  status text,
  period_start timestamptz,
  period_end timestamptz,
  -- The processor's time of the last event that was applied: an older one changes nothing.
  applied_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create unique index subscriptions_customer on subscriptions (customer_id);

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

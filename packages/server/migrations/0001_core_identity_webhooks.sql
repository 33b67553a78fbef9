-- Ids are compared byte by byte: their order is the order of creation, whatever the database's collation.
create extension if not exists pg_trgm;

-- One row: which key-encryption keys seal this installation's secrets, one but for the time of a rotation. A process that
-- does not hold them all must not start.
create table installation (
  singleton boolean primary key default true check (singleton),
  kek_ids text[] not null,
  created_at timestamptz not null default now()
);

-- One row: raised in the transaction that changes API keys or apps; every process polls it.
create table auth_epoch (
  singleton boolean primary key default true check (singleton),
  epoch bigint not null default 0
);
insert into auth_epoch default values;

create table tenants (
  id text collate "C" primary key,
  name text not null,
  plan text not null default 'self_hosted',
  default_app_id text collate "C",
  -- Ed25519: the ledger node's own key, in whose namespace this tenant's parties are.
  node_public_key bytea not null,
  node_key_sealed bytea not null,
  created_at timestamptz not null,
  updated_at timestamptz not null
);

create table apps (
  tenant_id text collate "C" not null references tenants on delete cascade,
  id text collate "C" not null,
  name text not null,
  allowed_origins text[] not null default '{}',
  allowed_redirect_urls text[] not null default '{}',
  passkey jsonb not null,
  messenger jsonb not null,
  bot_token_sealed bytea,
  mfa jsonb not null,
  sessions jsonb not null,
  mpc jsonb not null,
  recovery jsonb not null,
  metadata jsonb not null default '{}',
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id)
);

create table api_keys (
  tenant_id text collate "C" not null references tenants on delete cascade,
  id text collate "C" not null,
  name text not null,
  type text not null,
  scopes text[] not null,
  app_id text collate "C",
  -- SHA-256 of the key; of the one before it while a rotation's grace lasts.
  hash bytea not null,
  previous_hash bytea,
  previous_until timestamptz,
  prefix text not null,
  last4 text not null,
  allowed_ips text[] not null default '{}',
  metadata jsonb not null default '{}',
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id)
);
create unique index api_keys_hash on api_keys (hash);
create unique index api_keys_previous_hash on api_keys (previous_hash) where previous_hash is not null;

create table users (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  email text,
  -- What makes an email the same: NFC, case folded.
  email_key text,
  email_verified boolean not null default false,
  name text,
  external_id text,
  party_id text not null,
  trust_level text not null default 'embedded',
  status text not null default 'active',
  -- A guest is a user that lists hide until conversion.
  guest boolean not null default false,
  mfa_enabled boolean not null default false,
  metadata jsonb not null default '{}',
  -- Email, name, external id and id in lower case. The party's namespace is the same for a whole tenant and is matched apart.
  search_text text not null,
  last_seen_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- With what lists filter by, so that a page far down is found in the index alone.
  primary key (tenant_id, id) include (guest, trust_level),
  -- No cascade: an app goes only once its users are gone, and none is created in one that is going.
  constraint users_app_fk foreign key (tenant_id, app_id) references apps
);
create unique index users_email on users (tenant_id, app_id, email_key) where email_key is not null;
create unique index users_external_id on users (tenant_id, app_id, external_id) where external_id is not null;
create index users_app on users (tenant_id, app_id, id) include (trust_level) where not guest;
create index users_trust_level on users (tenant_id, trust_level, id) where not guest and trust_level <> 'embedded';
create index users_search on users using gin (search_text gin_trgm_ops);

-- How many users lists show, exactly: the sum over shards. A shard a connection, so that no two creations meet on a row.
create table user_counts (
  tenant_id text collate "C" not null,
  app_id text collate "C" not null,
  trust_level text not null,
  shard smallint not null,
  n bigint not null,
  primary key (tenant_id, app_id, trust_level, shard)
) with (fillfactor = 50);

create table idempotency_keys (
  tenant_id text collate "C" not null,
  -- SHA-256 of API key, method, path, user and the header's value.
  scope_hash bytea not null,
  request_hash bytea not null,
  status smallint,
  answer bytea,
  sealed boolean not null default false,
  -- For a call with a network step: what another process needs to finish it.
  recovery json,
  expires_at timestamptz not null,
  primary key (tenant_id, scope_hash)
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);

-- Long work that outlives a request and a process. `state` is where it will go on.
create table jobs (
  tenant_id text collate "C" not null,
  app_id text collate "C",
  id text collate "C" not null,
  type text not null,
  status text not null,
  progress bigint not null default 0,
  total bigint not null default 0,
  state jsonb not null,
  error text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id)
);
create index jobs_open on jobs (type, updated_at) where status in ('pending', 'running');
create index jobs_ended on jobs (updated_at) where status in ('succeeded', 'failed');

create table events (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C",
  type text not null,
  -- Exactly the bytes that are signed and sent.
  body text not null,
  created_at timestamptz not null,
  -- Actor, address, request id: for the audit log, never sent.
  context jsonb not null,
  primary key (tenant_id, id)
);
-- Rows lie in the order of their times: a summary of page ranges finds the old ones, and costs an insert nothing.
create index events_age on events using brin (created_at) with (autosummarize = on);

create table outbox (
  tenant_id text collate "C" not null,
  event_id text collate "C" not null,
  app_id text collate "C",
  type text not null,
  -- The last webhook that has its delivery, for an event with more of them than one transaction takes.
  after_webhook_id text collate "C" not null default '',
  primary key (tenant_id, event_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- The order in which events became deliverable: gap-free for each tenant.
create table feed (
  tenant_id text collate "C" not null,
  seq bigint not null,
  event_id text collate "C" not null,
  primary key (tenant_id, seq)
);
create index feed_age on feed using brin (event_id) with (autosummarize = on);
create table feed_heads (
  tenant_id text collate "C" primary key,
  seq bigint not null
) with (fillfactor = 20);

create table webhooks (
  tenant_id text collate "C" not null references tenants on delete cascade,
  id text collate "C" not null,
  app_id text collate "C",
  url text not null,
  events text[] not null,
  description text,
  status text not null,
  disabled_reason text,
  secret_sealed bytea not null,
  secret_last4 text not null,
  previous_secret_sealed bytea,
  previous_secret_until timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- Set until the pending deliveries of a deleted webhook are cancelled; then the row goes.
  deleted_at timestamptz,
  primary key (tenant_id, id)
);

-- Those whose pending deliveries have to be ended.
create index webhooks_held on webhooks (tenant_id, id) where deleted_at is not null or status = 'disabled';

-- A lane is a queue of its own: one for each webhook, one more for its test events, so that nothing delays another.
create table lanes (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  webhook_id text collate "C" not null,
  -- When its next delivery is due, at the latest.
  due_at timestamptz not null default 'infinity',
  -- No unleased delivery is due before this: spares a claim the index's dead head.
  floor_at timestamptz not null default '-infinity',
  -- Paused, disabled or deleted: nothing is claimed.
  held boolean not null default false,
  -- Was at its cap with more to send; whoever finishes one makes it due.
  saturated boolean not null default false,
  -- Takes seconds to answer; slow lanes together get at most half of a process's slots.
  slow boolean not null default false,
  timeouts integer not null default 0,
  failing_since timestamptz,
  primary key (tenant_id, id)
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create index lanes_due on lanes (due_at) where not held;

-- Pending work only; what ended moves to deliveries_done.
create table deliveries (
  tenant_id text collate "C" not null,
  webhook_id text collate "C" not null,
  id text collate "C" not null,
  lane_id text collate "C" not null,
  event_id text collate "C" not null,
  event_type text not null,
  -- Counts manual retries; `retry` counts the scheduled ones within a cycle.
  cycle integer not null default 0,
  retry integer not null default 0,
  attempts integer not null default 0,
  next_at timestamptz not null,
  lease_id text collate "C",
  lease_until timestamptz,
  leases_lost integer not null default 0,
  created_at timestamptz not null,
  primary key (tenant_id, webhook_id, id)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index deliveries_due on deliveries (lane_id, next_at) where lease_id is null;
create index deliveries_leased on deliveries (lane_id, lease_until) where lease_id is not null;

create table deliveries_done (
  tenant_id text collate "C" not null,
  webhook_id text collate "C" not null,
  id text collate "C" not null,
  event_id text collate "C" not null,
  event_type text not null,
  status text not null,
  cycle integer not null,
  retry integer not null,
  attempts integer not null,
  test boolean not null default false,
  created_at timestamptz not null,
  done_at timestamptz not null,
  primary key (tenant_id, webhook_id, id)
);
create index deliveries_done_age on deliveries_done using brin (done_at) with (autosummarize = on);
create index deliveries_done_dead on deliveries_done (tenant_id, webhook_id, id) where status = 'dead_letter';
create index deliveries_done_dead_events on deliveries_done (tenant_id, event_id) where status = 'dead_letter';

create table attempts (
  tenant_id text collate "C" not null,
  delivery_id text collate "C" not null,
  -- 0 is the first send.
  number integer not null,
  at timestamptz not null,
  status_code smallint,
  duration_ms integer not null,
  error text,
  response_snippet text,
  primary key (tenant_id, delivery_id, number)
);

create table workers (
  id text collate "C" primary key,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null
);

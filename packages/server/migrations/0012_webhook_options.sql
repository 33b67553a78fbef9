-- What a webhook's requests carry or use beside the signature: own headers, OAuth client credentials, a client certificate.
alter table webhooks
  -- As the API shows it, without secrets. Null: no options.
  add column options jsonb,
  -- All of it with its secrets, as one sealed value. Null: no options.
  add column options_sealed bytea;

-- Attempts by webhook and minute, of the last quarter of an hour: what health and alerts are judged by. Counted in the
-- workers and written down every few seconds. Tests and deliveries of alerts do not count.
create table webhook_minutes (
  tenant_id text collate "C" not null,
  webhook_id text collate "C" not null,
  minute timestamptz not null,
  attempts integer not null,
  failed integer not null,
  primary key (tenant_id, webhook_id, minute)
) with (fillfactor = 50);
create index webhook_minutes_age on webhook_minutes (minute);

-- Webhooks that fail: a row from the first `webhook.failing` until `webhook.recovered`.
create table webhook_alerts (
  tenant_id text collate "C" not null,
  webhook_id text collate "C" not null,
  -- The highest percentage that was announced.
  threshold smallint not null,
  since timestamptz not null,
  primary key (tenant_id, webhook_id),
  foreign key (tenant_id, webhook_id) references webhooks on delete cascade
);

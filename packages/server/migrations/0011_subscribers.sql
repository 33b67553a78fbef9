-- An app's own customers, who receive the events that the app publishes for them.
create table subscribers (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  -- The app's name for the customer.
  external_id text collate "C" not null,
  name text,
  metadata jsonb not null default '{}',
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint subscribers_app_fk foreign key (tenant_id, app_id) references apps on delete cascade
);
create unique index subscribers_external_id on subscribers (tenant_id, app_id, external_id);

-- Links to the portal of one subscriber.
create table portal_links (
  tenant_id text collate "C" not null,
  -- Public: names the origins that may embed the page, before its token is known.
  id text collate "C" not null,
  subscriber_id text collate "C" not null,
  -- SHA-256 of the token.
  hash bytea not null,
  origins text[] not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, subscriber_id) references subscribers on delete cascade
);
create unique index portal_links_id on portal_links (id);
create unique index portal_links_hash on portal_links (hash);
create index portal_links_subscriber on portal_links (tenant_id, subscriber_id);
create index portal_links_age on portal_links (expires_at);

-- Null for an event that is for no subscriber, as all of Halfkey's own are.
alter table events add column subscriber_id text collate "C";
alter table outbox add column subscriber_id text collate "C";

alter table webhooks
  -- The subscriber whose events alone it gets; null for a webhook of the tenant.
  add column subscriber_id text collate "C",
  -- Whether a webhook of the tenant gets the events of subscribers too.
  add column include_subscribers boolean not null default false;
-- The fan-out looks up a tenant's own webhooks and those of one subscriber, never all subscribers'.
create index webhooks_of_tenant on webhooks (tenant_id, id) where subscriber_id is null;
create index webhooks_of_subscriber on webhooks (tenant_id, subscriber_id, id) where subscriber_id is not null;

-- How the pages that an app shows to its customers look: name and accentColor, each null for the default.
alter table apps add column branding jsonb not null default '{"name": null, "accentColor": null}';

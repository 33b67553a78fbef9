-- Types of the events that teams publish themselves.
create table event_types (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  name text collate "C" not null,
  description text,
  -- Text, so that members keep their order. Null: any object.
  schema json,
  -- Counts the changes of `schema`, from 1.
  schema_version integer not null,
  example json,
  deprecated boolean not null,
  -- active, or archived: then nothing can be published.
  status text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint event_types_app_fk foreign key (tenant_id, app_id) references apps on delete cascade
);
create unique index event_types_name on event_types (tenant_id, app_id, name);

-- Events that were published under a key of the caller's, for a day: a repeat is not a second event.
create table event_keys (
  tenant_id text collate "C" not null,
  app_id text collate "C" not null,
  key text collate "C" not null,
  event_id text collate "C" not null,
  -- SHA-256 of type and data.
  content_hash bytea not null,
  created_at timestamptz not null,
  primary key (tenant_id, app_id, key)
);
create index event_keys_age on event_keys (created_at);

-- Providers by which users of an app sign in: OpenID Connect, and GitHub.
create table app_providers (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  preset text not null,
  -- What the button says.
  name text not null,
  -- In whose name space its subjects are; the `iss` of its ID tokens, to the letter.
  issuer text collate "C" not null,
  client_id text not null,
  -- What the app's client proves itself with. Of Apple, the private key that signs client secrets.
  client_secret_sealed bytea,
  -- Apple's names for the team and the key.
  team_id text,
  key_id text,
  -- Clients of native apps, whose ID tokens count too.
  native_client_ids text[] not null,
  jit text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, id),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade
);
create unique index app_providers_issuer on app_providers (tenant_id, app_id, issuer);
-- A browser that comes back names the provider alone.
create index app_providers_id on app_providers (id);

-- Sign-ins by a provider, beside those by other ways.
alter table analytics_daily add column sign_ins_provider bigint not null default 0;

-- Halfkey as an OpenID issuer: each app is one.

-- Which verifiers an app's ID tokens may name (`aud`), and which claims they take from a user's metadata: {audiences, claims}.
alter table apps add column openid jsonb not null default '{"audiences": [], "claims": []}';

-- The RSA keys that sign an app's ID tokens. In a table of its own, because a process of the release before takes every row of
-- `signing_keys` for a key of access tokens.
create table id_token_keys (
  tenant_id text collate "C" not null,
  -- The `kid`.
  id text collate "C" not null,
  app_id text collate "C" not null,
  private_key_sealed bytea not null,
  created_at timestamptz not null,
  -- It signs no more, and is published until then.
  retires_at timestamptz,
  -- It was revoked, and is not published.
  revoked_at timestamptz,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, id),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade
);
-- Of processes that need an app's first key at once, one makes it.
create unique index id_token_keys_current on id_token_keys (tenant_id, app_id) where retires_at is null;
create index id_token_keys_published on id_token_keys (tenant_id, app_id, retires_at) where revoked_at is null;
call count_changes_of('id_token_keys');

-- Keys of metadata that begin with `claim:` become claims of ID tokens from now on. Guests could write any key when they converted
-- themselves, so what is there goes.
create function drop_claims() returns trigger language plpgsql as $$
begin
  new.metadata := (
    select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(new.metadata) where not starts_with(key, 'claim:'));
  return new;
end $$;
-- Processes of the release before still let guests write them. This one writes a server's claims after the conversion.
create trigger users_drop_claims before update on users for each row
when (old.guest and not new.guest and strpos(new.metadata::text, '"claim:') > 0) execute function drop_claims();
update users u set metadata = (
    select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(u.metadata) where not starts_with(key, 'claim:'))
where strpos(u.metadata::text, '"claim:') > 0;

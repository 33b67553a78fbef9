-- Links that sign in to the dashboard, each once.
create table dashboard_links (
  -- SHA-256 of the token.
  hash bytea primary key,
  -- The tenant that it shows; null for the operator's, which shows all of them.
  tenant_id text collate "C",
  expires_at timestamptz not null,
  used_at timestamptz,
  created_at timestamptz not null
);

create table dashboard_sessions (
  -- SHA-256 of the cookie.
  hash bytea primary key,
  -- Null for an operator's.
  tenant_id text collate "C",
  -- The API key that it was begun with, and that key's hash: it ends with this value of the key. Null for a link's.
  key_id text collate "C",
  key_hash bytea,
  last_used_at timestamptz not null,
  expires_at timestamptz not null,
  created_at timestamptz not null,
  -- What acts for a key is that key's tenant's.
  check ((key_id is null) = (key_hash is null) and (key_id is null or tenant_id is not null))
) with (fillfactor = 80);

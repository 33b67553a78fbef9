-- Agents that users connect by OAuth: each connection is a delegated session.

alter table apps add column agents jsonb not null default '{"connect": false}';

-- The codes and tokens of these connections, by what was given out.
create table agent_tokens (
  tenant_id text collate "C" not null,
  -- SHA-256 of the code or token.
  hash bytea not null,
  -- code | refresh | access
  kind text not null,
  app_id text collate "C" not null,
  delegated_session_id text collate "C" not null,
  -- The address of the client's metadata.
  client_id text not null,
  -- Of a code: what its exchange must repeat, and the PKCE challenge.
  redirect_uri text,
  code_challenge text,
  -- The token of the delegated session, encrypted under a key that follows from the code or token itself.
  box bytea not null,
  expires_at timestamptz not null,
  -- Of a code and a refresh token: when it was used.
  used_at timestamptz,
  mac bytea,
  primary key (tenant_id, hash)
);
-- Of an access token, nothing says whose it is.
create unique index agent_tokens_hash on agent_tokens (hash);
create index agent_tokens_age on agent_tokens using brin (expires_at) with (autosummarize = on);
call count_changes_of('agent_tokens');

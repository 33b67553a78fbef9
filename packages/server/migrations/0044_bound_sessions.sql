-- Delegated sessions that are bound to a key of their delegate, who proves with every call to have it (RFC 9449).

-- Thumbprint of that key (RFC 7638), base64url; null for a session whose token is enough.
alter table delegated_sessions add column jkt text;

-- Proofs that have been used, by their `jti`: each counts once.
create table used_proofs (
  tenant_id text collate "C" not null,
  delegated_session_id text collate "C" not null,
  -- SHA-256 of the jti.
  hash bytea not null,
  -- From then on every process refuses the proof for its age.
  expires_at timestamptz not null,
  primary key (tenant_id, delegated_session_id, hash)
);
create index used_proofs_age on used_proofs using brin (expires_at) with (autosummarize = on);

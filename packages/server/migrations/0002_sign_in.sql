-- Ed25519 keys that sign access tokens, and the secrets that authenticate refresh tokens: one row a rotation.
create table signing_keys (
  id text collate "C" primary key,
  public_key bytea not null,
  private_key_sealed bytea not null,
  refresh_secret_sealed bytea not null,
  created_at timestamptz not null,
  -- Access tokens by it are accepted, and the JWKS shows it, until then; null while it is the newest.
  retires_at timestamptz,
  -- Set when it may be in the wrong hands: nothing that it made counts any more.
  revoked_at timestamptz
);

-- A guest that has ended: on the row that a session's beginning locks, so that neither slips past the other.
alter table users add column guest_ended boolean not null default false;

-- Every sign-in notes when its user was last seen. With room on the page that touches no index, the text search's above all.
alter table users set (fillfactor = 85);

create table sessions (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  -- Authentication methods (RFC 8176) of the sign-in.
  amr text[] not null,
  signed_in_at timestamptz not null,
  -- When a second factor was last verified in it.
  mfa_at timestamptz,
  -- Counts refreshes. The refresh token of the present generation is the valid one.
  generation integer not null default 0,
  refreshed_at timestamptz not null,
  -- Ends sooner than its app's setting says: a guest's.
  ends_at timestamptz,
  expires_at timestamptz not null,
  -- Whether the sign-in made the user.
  is_new_user boolean not null default false,
  user_agent text,
  address text not null,
  revoked_at timestamptz,
  primary key (tenant_id, id),
  constraint sessions_user_fk foreign key (tenant_id, user_id) references users on delete cascade
) with (fillfactor = 80);
create index sessions_user on sessions (tenant_id, user_id, id);

-- Sessions whose access tokens are refused though they have not expired. Every process follows it by transaction id,
-- which no clock and no late commit can upset.
create table revoked_sessions (
  tenant_id text collate "C" not null,
  session_id text collate "C" not null,
  xid xid8 not null default pg_current_xact_id(),
  -- No access token of the session lives longer.
  forget_at timestamptz not null,
  primary key (tenant_id, session_id)
);
create index revoked_sessions_xid on revoked_sessions (xid);

-- What a browser or an authenticator has to answer: once, and within minutes.
create table challenges (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  kind text not null,
  -- The user it is for; null for one who is yet to be known.
  user_id text collate "C",
  data jsonb not null,
  expires_at timestamptz not null,
  used_at timestamptz,
  primary key (tenant_id, id)
);
create index challenges_age on challenges using brin (expires_at) with (autosummarize = on);

create table passkeys (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  credential_id bytea not null,
  -- COSE key (RFC 9052).
  public_key bytea not null,
  sign_count bigint not null,
  rp_id text not null,
  aaguid text not null,
  transports text[] not null,
  device_type text not null,
  backed_up boolean not null,
  name text,
  last_used_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint passkeys_user_fk foreign key (tenant_id, user_id) references users on delete cascade
) with (fillfactor = 80);
create unique index passkeys_credential on passkeys (tenant_id, app_id, credential_id);
create index passkeys_user on passkeys (tenant_id, user_id, id);

-- Accounts elsewhere by which users sign in.
create table identities (
  tenant_id text collate "C" not null,
  app_id text collate "C" not null,
  provider text not null,
  subject text collate "C" not null,
  user_id text collate "C" not null,
  username text,
  created_at timestamptz not null,
  primary key (tenant_id, app_id, provider, subject),
  constraint identities_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);
create index identities_user on identities (tenant_id, user_id);

-- Messenger payloads that have signed somebody in: each counts once.
create table messenger_payloads (
  tenant_id text collate "C" not null,
  hash bytea not null,
  expires_at timestamptz not null,
  primary key (tenant_id, hash)
);
create index messenger_payloads_age on messenger_payloads using brin (expires_at) with (autosummarize = on);

create table guests (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  party_id text not null,
  status text not null,
  metadata jsonb not null default '{}',
  expires_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint guests_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);
create unique index guests_user on guests (tenant_id, user_id);
create index guests_app on guests (tenant_id, app_id, id);
create index guests_open on guests (expires_at) where status = 'active';

create table mfa_factors (
  tenant_id text collate "C" not null,
  user_id text collate "C" not null,
  -- The active TOTP secret; null while only a set-up is pending.
  secret_sealed bytea,
  pending_secret_sealed bytea,
  pending_until timestamptz,
  -- The last accepted time step: none is accepted twice, nor an earlier one (RFC 6238, section 5.2).
  last_step bigint not null default 0,
  failures smallint not null default 0,
  locked_until timestamptz,
  enabled_at timestamptz,
  primary key (tenant_id, user_id),
  constraint mfa_factors_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);

create table recovery_codes (
  tenant_id text collate "C" not null,
  user_id text collate "C" not null,
  -- SHA-256 of user and code, which has 80 random bits.
  hash bytea not null,
  used_at timestamptz,
  primary key (tenant_id, user_id, hash),
  constraint recovery_codes_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);

-- Step-ups of secret keys that act for a user: each counts for that key and that user.
create table server_verifications (
  tenant_id text collate "C" not null,
  key_id text collate "C" not null,
  user_id text collate "C" not null,
  mfa_at timestamptz not null,
  primary key (tenant_id, key_id, user_id),
  constraint server_verifications_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);

-- One-time codes by which the hosted page hands a session over to an app.
create table sign_in_codes (
  tenant_id text collate "C" not null,
  -- SHA-256 of the code.
  hash bytea not null,
  app_id text collate "C" not null,
  session_id text collate "C" not null,
  redirect_uri text not null,
  -- PKCE S256 (RFC 7636).
  code_challenge text not null,
  expires_at timestamptz not null,
  used_at timestamptz,
  primary key (tenant_id, hash)
);
create index sign_in_codes_age on sign_in_codes using brin (expires_at) with (autosummarize = on);

-- The hosted page knows an app by its id alone.
create unique index apps_id on apps (id);

-- Which tenant names a relying party: the first that did. Only its origins are told to browsers as related.
create table relying_parties (
  rp_id text collate "C" primary key,
  tenant_id text collate "C" not null references tenants on delete cascade
);
insert into relying_parties (rp_id, tenant_id)
select distinct on (passkey->>'rpId') passkey->>'rpId', tenant_id from apps where passkey->>'rpId' is not null
order by passkey->>'rpId', id;

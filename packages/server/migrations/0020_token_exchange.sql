-- Issuers whose tokens an app takes as a sign-in.
create table app_issuers (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  -- What `iss` of a token must be, to the letter.
  issuer text collate "C" not null,
  -- Where its keys are: one of the two.
  jwks_uri text,
  discovery text,
  audiences text[] not null,
  algorithms text[] not null,
  -- Which claims of a token are what: sub, email, emailVerified, name.
  claims jsonb not null,
  jit text not null,
  max_token_age_seconds integer not null,
  -- The claim that says that the issuer verified a second factor: claim, values.
  mfa_claim jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, app_id) references apps (tenant_id, id) on delete cascade
);
create unique index app_issuers_issuer on app_issuers (tenant_id, app_id, issuer);

-- Identities are records of their own. Those of earlier releases, and of a process of one that still runs, get an id that
-- sorts before all others: 'idn_', ten zeros for the time, 60 random bits.
alter table identities
  add column id text collate "C" not null
    default 'idn_0000000000' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 16),
  -- The issuer in whose name space the subject is; empty for a provider that is one itself.
  add column issuer text collate "C" not null default '';
alter table identities drop constraint identities_pkey;
alter table identities add primary key (tenant_id, id);
create unique index identities_subject on identities (tenant_id, app_id, provider, issuer, subject);

-- Tokens of issuers that have been used, by their `jti`: each counts once.
create table used_tokens (
  tenant_id text collate "C" not null,
  -- SHA-256 of app, issuer and jti.
  hash bytea not null,
  -- No token with this jti is accepted any more.
  expires_at timestamptz not null,
  primary key (tenant_id, hash)
);
create index used_tokens_age on used_tokens using brin (expires_at) with (autosummarize = on);

alter table sessions
  -- Whether it began with a way in that somebody else controls.
  add column weak boolean not null default false,
  -- When a passkey of the account was last shown in it, after its beginning.
  add column passkey_at timestamptz,
  -- When its issuer last verified a second factor of the user, if it says so.
  add column issuer_mfa_at timestamptz;

-- Sign-ins by exchange, beside those by passkey and messenger.
alter table analytics_daily add column sign_ins_exchange bigint not null default 0;

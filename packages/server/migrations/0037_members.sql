-- People who sign in to the dashboard of a tenant as themselves, each with a role. The row of a removed one stays: the audit log
-- and API keys name it.
create table members (
  tenant_id text collate "C" not null references tenants on delete cascade,
  id text collate "C" not null,
  email text not null,
  -- As it is compared.
  email_key text not null,
  name text not null,
  role text not null,
  -- The apps that the member may see; null for all of the tenant. Never empty.
  app_ids text[],
  status text not null,
  -- The ids of their passkeys: one that was removed and is put back signs nobody in.
  passkeys text[] not null default '{}',
  -- Who invited them, as the audit log names actors.
  invited_by text,
  last_signed_in_at timestamptz,
  removed_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  version integer not null default 0,
  mac bytea,
  primary key (tenant_id, id),
  check (cardinality(app_ids) > 0)
);
create unique index members_email on members (tenant_id, email_key) where status <> 'removed';
call count_changes_of('members');

-- What members sign in to the dashboard with, at the service's own host.
create table member_passkeys (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  member_id text collate "C" not null,
  credential_id bytea not null,
  -- COSE key (RFC 9052).
  public_key bytea not null,
  rp_id text not null,
  device_type text not null,
  sign_count bigint not null,
  name text not null,
  last_used_at timestamptz,
  created_at timestamptz not null,
  mac bytea,
  primary key (tenant_id, id),
  foreign key (tenant_id, member_id) references members (tenant_id, id) on delete cascade
);
-- Whose a passkey is, is found before anybody is known.
create unique index member_passkeys_credential on member_passkeys (credential_id);
create index member_passkeys_member on member_passkeys (tenant_id, member_id);
call count_changes_of('member_passkeys');

-- What a passkey has to sign, once and within minutes.
create table member_challenges (
  id text collate "C" primary key,
  kind text not null,
  -- base64url
  challenge text not null,
  rp_id text not null,
  -- Of a new passkey: whose it will be, as tenant and member.
  holder text,
  expires_at timestamptz not null,
  mac bytea
);
create index member_challenges_age on member_challenges (expires_at);
call count_changes_of('member_challenges');

-- A link or session of a member. A session's member last proved who they are at `verified_at`.
-- An invitation counts while the member is invited.
alter table dashboard_links add column member_id text collate "C", add column invites boolean not null default false,
  add column made_by text,
  add constraint dashboard_links_member check (member_id is null or tenant_id is not null);
create index dashboard_links_by_member on dashboard_links (tenant_id, member_id) where member_id is not null;
alter table dashboard_sessions add column member_id text collate "C", add column verified_at timestamptz,
  add column version integer not null default 0,
  add constraint dashboard_sessions_member check (member_id is null or (tenant_id is not null and key_id is null));
create index dashboard_sessions_by_member on dashboard_sessions (tenant_id, member_id) where member_id is not null;

-- Who made a key, as the audit log names actors; null for keys from before.
alter table api_keys add column created_by text;

-- A shared key is one wallet's.
create index wallets_own_key on wallets (public_key) where custody <> 'embedded';

-- How a `shared` wallet's key came to be: dkg or client_dealt.
alter table wallets add column key_origin text;
-- When the user first had the whole key, or the share for it, given out.
alter table wallets add column exported_at timestamptz;
-- When recoveries were tried of late; and from when the next one is taken after too many, which grows with the strikes.
alter table wallets add column recovery_tried_at timestamptz[] not null default '{}';
alter table wallets add column recovery_strikes smallint not null default 0;
alter table wallets add column recovery_after timestamptz;

-- What the service answered as its part of a signature, and to which commitments: never what it drew to make it.
alter table transactions add column cosigned json;
-- Wrong signatures for a shared key, sent by a delegate.
alter table delegated_sessions add column wrong_signatures smallint not null default 0;

-- Keys that clients seal secrets to (HPKE), of the installation.
create table encryption_keys (
  id text collate "C" primary key,
  public_key bytea not null,
  private_key_sealed bytea not null,
  created_at timestamptz not null,
  -- From then on nothing is opened by it.
  not_after timestamptz not null
);

create table key_shares (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  wallet_id text collate "C" not null,
  generation integer not null,
  index smallint not null,
  holder text not null,
  threshold smallint not null,
  total smallint not null,
  scheme text not null,
  curve text not null,
  -- Feldman's, 32 bytes each; the first is the wallet's key.
  commitments bytea[] not null,
  -- The share's public key.
  verifying_share bytea not null,
  -- service: it can open the share; client: it can't, or does not have it at all.
  protection text not null,
  -- pending until its generation is confirmed; superseded by a newer one; deleted for good.
  status text not null,
  -- The share itself, where the service can open it.
  share_sealed bytea,
  -- The share as the client sealed it; null where it is not kept here.
  client_ciphertext json,
  last_used_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint key_shares_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
create unique index key_shares_place on key_shares (wallet_id, generation, index) where status in ('pending', 'active');
create index key_shares_wallet on key_shares (wallet_id);

-- Distributed key generations that are under way.
create table key_generations (
  tenant_id text collate "C" not null,
  id text collate "C" not null,
  app_id text collate "C" not null,
  user_id text collate "C" not null,
  ledger text not null,
  -- round1 → round2 → confirmed; or canceled.
  status text not null,
  participants json not null,
  -- What everybody told first, the service too.
  round1 json not null,
  -- The service's polynomial until the second round, then its share; null once it is over.
  state_sealed bytea,
  -- Commitments and verifying shares, from the second round on.
  sharing json,
  -- What both sides must have seen alike.
  transcript bytea not null,
  -- The second round as it was asked, hashed, and as it was answered.
  round2_hash bytea,
  round2 json,
  -- Of the wallet that it makes, which is there once it is confirmed.
  wallet_id text collate "C" not null,
  expires_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (tenant_id, id),
  constraint key_generations_user_fk foreign key (tenant_id, user_id) references users on delete cascade
);
create index key_generations_user on key_generations (user_id);
-- What is still to be wiped.
create index key_generations_secret on key_generations (expires_at) where state_sealed is not null;
create index key_generations_age on key_generations (expires_at);

-- Resharings: one a wallet, the last that was started, until a day after its time is over.
create table resharings (
  tenant_id text collate "C" not null,
  wallet_id text collate "C" not null,
  id text collate "C" not null,
  -- The challenge that was answered with it, which its proofs are bound to.
  challenge_id text collate "C" not null,
  -- The generation that it replaces.
  generation integer not null,
  -- What the new shares sign.
  transcript bytea not null,
  commitments bytea[] not null,
  -- The service's new share; null once it counts, and once it never will.
  share_sealed bytea,
  confirmed_at timestamptz,
  expires_at timestamptz not null,
  created_at timestamptz not null,
  primary key (tenant_id, wallet_id),
  constraint resharings_wallet_fk foreign key (tenant_id, wallet_id) references wallets on delete cascade
);
create index resharings_age on resharings (expires_at);

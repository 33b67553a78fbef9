-- Keys that identify the installation to clients that pin it (Ed25519). The newest one signs; the others are kept as what
-- endorsed their successor.
create table identity_keys (
  id text collate "C" primary key,
  -- 1 for the first. Unique, so that of two rotations at once only one succeeds.
  position integer not null unique check (position >= 1),
  -- Raw, 32 bytes.
  public_key bytea not null,
  -- Destroyed when the key is replaced: what is gone cannot be stolen and endorse another key.
  private_key_sealed bytea,
  -- The previous key's signature over this one; null for the first, and for one that replaced a compromised key.
  endorsement bytea,
  created_at timestamptz not null
);

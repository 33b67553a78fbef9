-- Keys that sign access tokens and stay in a hardware module: such a row has no private half, and its MAC covers the public one.
alter table signing_keys add column remote_public_key bytea check (octet_length(remote_public_key) = 32);
alter table signing_keys alter column private_key_sealed drop not null;
alter table signing_keys add constraint signing_keys_one_half check ((private_key_sealed is null) = (remote_public_key is not null));

-- Which version of its wallet's spending a transaction made: one that is older than its transactions was put back.
alter table transactions add column spending_version integer;
create index transactions_spending on transactions (wallet_id, spending_version) where spending_version is not null;

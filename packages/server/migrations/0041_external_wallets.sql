-- Sign-in with a key of the user's own, held by a wallet elsewhere: an Ethereum account, or an Ed25519 key.
alter table apps add column external_wallets jsonb not null default '{"types": [], "signUp": true, "chainIds": [1]}';

-- Sign-ins by such a key, beside those by other ways.
alter table analytics_daily add column sign_ins_wallet bigint not null default 0;

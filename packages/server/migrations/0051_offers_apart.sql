-- A transfer is what it says: the same first contract with other parties, or another token or amount, is another one. The id of a token can
-- be longer than an entry of an index.
drop index token_offers_original;
create unique index token_offers_original on token_offers
  (tenant_id, wallet_id, admin, original_id, sender, receiver, amount, sha256(decode(replace(instrument, '\', '\\'), 'escape')));

-- Holdings and offers are read apart: others decide how many offers there are.
alter table token_views add column kind text not null default 'holdings';
alter table token_views drop constraint token_views_pkey;
alter table token_views add primary key (tenant_id, wallet_id, kind);
create or replace function queue_token_view() returns trigger language plpgsql as $$
begin
  insert into token_views (tenant_id, wallet_id, ledger, party_id, kind)
  select new.tenant_id, new.id, new.ledger, new.party_id, kind from unnest(array['holdings', 'offers']) as of(kind)
  on conflict do nothing;
  return null;
end $$;
insert into token_views (tenant_id, wallet_id, ledger, party_id, kind)
select tenant_id, wallet_id, ledger, party_id, 'offers' from token_views;

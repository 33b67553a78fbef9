-- What the id of a contract commits to beside its contents. Null for contracts of earlier versions, whose ids commit to
-- nothing: they begin with 00, the others with 01.
alter table ledger_contracts add column seed bytea;
alter table ledger_contracts add column index integer;

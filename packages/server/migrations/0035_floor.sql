-- How often records with a MAC were made, changed or removed, for the floor outside the database: a number that only grows. A
-- sequence, so that no transaction waits for another; one that was rolled back counts too.
create sequence authority_changes;

create function count_authority_change() returns trigger language plpgsql as $$
begin
  perform nextval('authority_changes');
  if tg_op = 'DELETE' then
    return old;
  end if;
  return new;
end $$;

-- Each time an operator took an earlier state of the database for the present one. The newest epoch is that of the floor.
create table accepted_restores (
  -- The epoch as text.
  id text collate "C" primary key,
  epoch bigint not null unique check (epoch >= 1),
  accepted_at timestamptz not null
);
alter table accepted_restores add column mac bytea;

-- Counts the changes of a table whose rows carry a MAC. A migration that makes such a table calls it, too.
create procedure count_changes_of(records text) language plpgsql as $$
begin
  execute format(
    'create trigger %I before insert or delete on %I for each row execute function count_authority_change()',
    records || '_note_presence', records);
  -- Triggers run in the order of their names: this one after `…_forget_mac`, so that it sees a MAC that was taken off.
  execute format(
    'create trigger %I before update on %I for each row when (old.mac is distinct from new.mac) execute function count_authority_change()',
    records || '_note_change', records);
end $$;

do $$
declare
  records text;
begin
  for records in
    select table_name from information_schema.columns
    where table_schema = current_schema() and column_name = 'mac' order by table_name
  loop
    call count_changes_of(records);
  end loop;
end $$;

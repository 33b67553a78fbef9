-- Which events a webhook gets.
alter table webhooks
  -- Text, so that members keep their order. Null: every event of the webhook's types.
  add column filter json,
  -- Counts the changes of `filter`: workers compile each version once.
  add column filter_version integer not null default 0;

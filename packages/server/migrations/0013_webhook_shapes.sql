-- Which events a webhook gets, and in which form they are sent.
alter table webhooks
  -- Text, so that members keep their order. Null: every event of the webhook's types.
  add column filter json,
  -- Counts the changes of `filter`: workers compile each version once.
  add column filter_version integer not null default 0,
  -- standard, cloudevents_structured, cloudevents_binary.
  add column format text not null default 'standard',
  -- full, or thin: without data.
  add column payload text not null default 'full';

-- Format and payload of what was sent, such as 'standard thin'. Null: 'standard full'.
alter table attempts add column shape text;

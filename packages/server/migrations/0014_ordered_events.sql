-- Events with the same key reach a webhook one at a time, in their order.
alter table outbox add column ordering_key text collate "C";
create index outbox_ordered on outbox (tenant_id, ordering_key, event_id) where ordering_key is not null;

alter table deliveries
  add column ordering_key text collate "C",
  -- Counted from 1 among the deliveries of the webhook with this key. All but the first of them have next_at = infinity.
  add column place bigint;
create index deliveries_ordered on deliveries (tenant_id, webhook_id, ordering_key, place) where ordering_key is not null;

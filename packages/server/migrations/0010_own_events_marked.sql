-- Events that teams published before their context said so: nothing is derived from them.
update events e set context = e.context || '{"custom": true}'
from event_types t
where t.tenant_id = e.tenant_id and t.name = e.type and e.context -> 'custom' is null;

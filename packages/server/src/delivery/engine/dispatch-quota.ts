/** How many sends one process has in the air. */
const SLOTS = 4_096
/** One tenant's part of them. */
const SLOTS_A_TENANT = SLOTS / 4
/** What webhooks that take seconds may hold together. */
const SLOTS_SLOW = SLOTS / 2

interface Holder {
  tenant_id: string
  slow: boolean
}

/** Counts a process's sends, so that neither one tenant nor all the slow receivers together can use it up. */
export function createDispatchQuota() {
  const byTenant = new Map<string, number>()
  let taken = 0
  let slow = 0
  let full = false
  return {
    take(row: Holder): void {
      taken += 1
      if (row.slow) slow += 1
      byTenant.set(row.tenant_id, (byTenant.get(row.tenant_id) ?? 0) + 1)
      full ||= taken >= SLOTS
    },
    release(row: Holder): void {
      taken -= 1
      if (row.slow) slow -= 1
      const left = (byTenant.get(row.tenant_id) ?? 1) - 1
      if (left === 0) byTenant.delete(row.tenant_id)
      else byTenant.set(row.tenant_id, left)
      if (left === SLOTS_A_TENANT - 1) full = true
    },
    taken: () => taken,
    free: () => SLOTS - taken,
    /** How many more sends a tenant may have. */
    roomOf: (tenantId: string) => Math.max(0, SLOTS_A_TENANT - (byTenant.get(tenantId) ?? 0)),
    fullTenants: () => [...byTenant].filter(([, count]) => count >= SLOTS_A_TENANT).map(([tenant]) => tenant),
    slowFull: () => slow >= SLOTS_SLOW,
    /** Whether a limit was reached since the last question: then someone may be waiting for a free slot. */
    wasFull(): boolean {
      const was = full
      full = false
      return was
    },
  }
}

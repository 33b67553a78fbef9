import { TriangleAlert } from 'lucide-react'
import { useId } from 'react'
import { allows } from '../../api.ts'
import { Checkbox } from '../../components/controls/checkbox.tsx'
import { SwitchField } from '../../components/controls/field.tsx'
import { useSession } from '../../shell/session-context.ts'
import { SCOPE_GROUPS, type Scope, type ScopeGroup } from './scopes.ts'

interface Choice {
  scopes: readonly Scope[]
  onChange: (scopes: Scope[]) => void
}

/** A segmented control for the levels, with "None". */
function Levels({ group, scopes, onChange }: Choice & { group: ScopeGroup }) {
  const { session } = useSession()
  const name = useId()
  const own = group.levels.map(({ scope }) => scope)
  const chosen = own.findLast((scope) => scopes.includes(scope)) ?? ''
  const options = [{ scope: '' as const, label: 'None' }, ...group.levels]
  return (
    <div className="flex flex-none self-start rounded-control border border-edge/60 p-0.5">
      {options.map(({ scope, label }) => (
        <label
          key={scope}
          className="relative flex min-h-8 min-w-16 cursor-pointer items-center justify-center rounded-md px-3 text-sm font-medium text-soft has-checked:bg-primary has-checked:text-on-primary has-disabled:cursor-not-allowed has-disabled:opacity-45 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent max-md:min-h-10"
        >
          <input
            type="radio"
            name={name}
            className="absolute inset-0 cursor-[inherit] opacity-0"
            checked={chosen === scope}
            disabled={scope !== '' && !allows(session, scope)}
            onChange={() =>
              onChange([...scopes.filter((each) => !own.includes(each)), ...(scope === '' ? [] : [scope])])
            }
          />
          {label}
        </label>
      ))}
    </div>
  )
}

function Group({ group, scopes, onChange }: Choice & { group: ScopeGroup }) {
  const { session } = useSession()
  const { extra } = group
  return (
    <fieldset className="flex flex-col gap-2 py-3">
      <legend className="sr-only">{group.label}</legend>
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <div className="min-w-0">
          <p aria-hidden className="text-sm font-medium">
            {group.label}
          </p>
          <p className="text-sm text-soft">{group.about}</p>
        </div>
        <Levels group={group} scopes={scopes} onChange={onChange} />
      </div>
      {extra === undefined ? null : (
        <Checkbox
          label={extra.label}
          hint={extra.about}
          checked={scopes.includes(extra.scope)}
          disabled={!allows(session, extra.scope)}
          onChange={(checked) =>
            onChange(checked ? [...scopes, extra.scope] : scopes.filter((each) => each !== extra.scope))
          }
        />
      )}
    </fieldset>
  )
}

/** Picks the scopes of a secret key: all, or a level per resource. Scopes that the session lacks cannot be chosen. */
export function ScopePicker({ scopes, onChange }: Choice) {
  const { session } = useSession()
  const all = scopes.includes('*')
  const mayAll = session.scopes.includes('*')
  return (
    <>
      {mayAll ? (
        <SwitchField
          label="Everything"
          hint="All scopes, including those added in later versions."
          checked={all}
          onChange={(checked) => onChange(checked ? ['*'] : [])}
        />
      ) : (
        <p className="text-sm text-soft">You can select only scopes that your own key has.</p>
      )}
      {all ? (
        <p className="flex gap-2 rounded-control bg-warn-wash px-3 py-2 text-sm text-warn">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 flex-none" />
          Anyone with this key can act for every user, create keys and delete everything. Give a server only the scopes
          that it needs.
        </p>
      ) : (
        <div className="divide-y border-t">
          {SCOPE_GROUPS.map((group) => (
            <Group key={group.label} group={group} scopes={scopes} onChange={onChange} />
          ))}
        </div>
      )}
    </>
  )
}

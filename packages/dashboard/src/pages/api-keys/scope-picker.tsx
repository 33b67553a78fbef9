import { TriangleAlert } from 'lucide-react'
import { useId, useState } from 'react'
import { allows } from '../../api.ts'
import { Checkbox } from '../../components/controls/checkbox.tsx'
import { useSession } from '../../shell/session-context.ts'
import { presetOf, SCOPE_GROUPS, SCOPE_PRESETS, type Scope, type ScopeGroup } from './scopes.ts'

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
    <fieldset className="flex flex-col gap-2 py-2.5">
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

function Presets({
  scopes,
  isCustom,
  onChoose,
}: {
  scopes: readonly Scope[]
  isCustom: boolean
  onChoose: (scopes: readonly Scope[] | null) => void
}) {
  const { session } = useSession()
  const name = useId()
  const chosen = isCustom ? 'custom' : presetOf(scopes)?.id
  const custom = { id: 'custom', label: 'Custom', about: 'Choose a level for each resource.', scopes: null }
  return (
    <div className="grid gap-2 sm:grid-cols-2">
      {[...SCOPE_PRESETS, custom].map(({ id, label, about, scopes: own }) => (
        <label
          key={id}
          className="relative flex min-h-11 cursor-pointer flex-col rounded-control border border-edge/50 px-3 py-2 text-sm hover:bg-raised has-checked:border-accent has-checked:bg-accent-wash has-disabled:cursor-not-allowed has-disabled:opacity-45 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent"
        >
          <input
            type="radio"
            name={name}
            aria-label={label}
            className="absolute inset-0 cursor-[inherit] opacity-0"
            checked={chosen === id}
            disabled={own !== null && !own.every((scope) => allows(session, scope))}
            onChange={() => onChoose(own)}
          />
          <span aria-hidden className="font-medium">
            {label}
          </span>
          <span className="text-soft">{about}</span>
        </label>
      ))}
    </div>
  )
}

/** Picks the scopes of a secret key: a preset, or a level for each resource. Scopes that the session lacks are disabled. */
export function ScopePicker({ scopes, onChange }: Choice) {
  const { session } = useSession()
  const [isCustom, setCustom] = useState(false)
  const choose = (preset: readonly Scope[] | null) => {
    setCustom(preset === null)
    // A custom choice starts with what was chosen before.
    onChange(preset === null ? scopes.filter((scope) => scope !== '*') : [...preset])
  }
  return (
    <>
      <Presets scopes={scopes} isCustom={isCustom} onChoose={choose} />
      {session.scopes.includes('*') ? null : (
        <p className="text-sm text-soft">You can select only scopes that your own key has.</p>
      )}
      {scopes.includes('*') ? (
        <p className="flex gap-2 rounded-control bg-warn-wash px-3 py-2 text-sm text-warn">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 flex-none" />
          Anyone with this key can act for every user, create keys and delete everything. Give a server only the scopes
          that it needs.
        </p>
      ) : null}
      {isCustom ? (
        <div className="divide-y border-y">
          {SCOPE_GROUPS.map((group) => (
            <Group key={group.label} group={group} scopes={scopes} onChange={onChange} />
          ))}
        </div>
      ) : null}
    </>
  )
}

import type { Command } from 'commander'

/** The shells that a completion script is made for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const

/** What may follow the words that were typed. */
interface Place {
  typed: string
  next: string[]
}

/** Every command and group, the deepest first: the words of `keys create` begin with those of `keys`. */
function placesBelow(command: Command, typed: string): Place[] {
  const below = command.commands.flatMap((each) => placesBelow(each, `${typed} ${each.name()}`.trim()))
  const names = command.commands.map((each) => each.name())
  const choices = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices)
  const options = command.options.flatMap(({ long }) => long ?? [])
  return [...below, { typed, next: [...names, ...choices, ...options, '--help'] }]
}

/** zsh runs the same script by its own compatibility layer. */
function bashScript(places: readonly Place[]): string {
  const cases = places.map(({ typed, next }) => `    '${typed}'|'${typed} '*) words='${next.join(' ')}' ;;`)
  return `_halfkey() {
  local words=
  case "\${COMP_WORDS[*]:1:COMP_CWORD-1}" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _halfkey halfkey`
}

function fishScript(places: readonly Place[]): string {
  const cases = places.map(
    ({ typed, next }) => `    case '${typed}' '${typed} *'\n      printf '%s\\n' ${next.join(' ')}`,
  )
  return `function __halfkey_words
  set -l typed (commandline -opc)
  switch "$typed[2..]"
${cases.join('\n')}
  end
end
complete -c halfkey -a '(__halfkey_words)'`
}

/** A script that completes commands and options without starting Halfkey; file names stay the shell's. */
export function completionScript(shell: (typeof SHELLS)[number], program: Command): string {
  const places = placesBelow(program, '')
  if (shell === 'fish') return fishScript(places)
  const compatibility = 'autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n'
  return `${shell === 'zsh' ? compatibility : ''}${bashScript(places)}`
}

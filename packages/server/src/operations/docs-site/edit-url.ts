/** Where a file of the repository is edited. Null without an https address: no link is better than a dead one. */
export function editUrl(repository: string | null, file: string): string | null {
  const [, address] = /^(?:git\+)?(https:\/\/.+?)(?:\.git)?$/.exec(repository ?? '') ?? []
  return address === undefined ? null : `${address}/edit/main/${file}`
}

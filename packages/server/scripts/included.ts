import { extname } from 'node:path'

/** What a code block of a file is called, by the file's ending. */
const LANGUAGES: Record<string, string> = { '.ts': 'ts', '.tsx': 'tsx', '.mjs': 'js', '.py': 'python', '.go': 'go' }

/** In the repository an example takes the SDK from its sources; a reader of the guide has it from npm. */
const IN_REPOSITORY = /'(?:\.\.\/)+packages\/(sdk|keys)\/src\/index\.ts'/g

/**
 * A guide with its included files renewed. Between `<!-- file: examples/x.py -->` and `<!-- /file -->` stands that file's
 * text as a code block, so that what is read is what the tests run.
 * @param read the text of a file of the repository
 * @throws Error for a file that is not there, or whose language has no name here
 */
export function withIncludedFiles(guide: string, read: (path: string) => string | null): string {
  return guide.replace(
    /(<!-- file: (\S+) -->\n)[\s\S]*?(<!-- \/file -->)/g,
    (_, begin: string, path: string, end: string) => {
      const text = read(path)
      const language = LANGUAGES[extname(path)]
      if (text === null || language === undefined) throw new Error(`${path} cannot be included in a guide`)
      return `${begin}\n\`\`\`${language}\n${text.trimEnd().replace(IN_REPOSITORY, "'@halfkey/$1'")}\n\`\`\`\n\n${end}`
    },
  )
}

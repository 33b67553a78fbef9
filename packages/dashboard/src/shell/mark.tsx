import mark from '../mark.svg'

/** The logo. */
export function Mark() {
  return <img src={mark} alt="" width={32} height={32} className="size-8" />
}

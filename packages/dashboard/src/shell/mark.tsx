import mark from '../mark.svg'

/** The product's sign. */
export function Mark() {
  return <img src={mark} alt="" width={32} height={32} className="size-8" />
}

// Preloaded (`node --import`): a machine whose clock is wrong by CLOCK_SHIFT_MS. The monotonic clock is right, as on such a machine.
const shiftMs = Number(process.env.CLOCK_SHIFT_MS)
const RealDate = Date
globalThis.Date = class ShiftedDate extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + shiftMs)
    else super(...args)
  }
  static now() {
    return RealDate.now() + shiftMs
  }
}

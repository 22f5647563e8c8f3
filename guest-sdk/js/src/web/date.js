// `Date` on the run's clock. Dates made from arguments are the engine's own.

import { Object, Reflect } from "../primordials.js";
import { nowMs } from "../host.js";

const NativeDate = globalThis.Date;

export function installDate() {
  function Date(...args) {
    if (!new.target) return new NativeDate(nowMs("Date()")).toString();
    return Reflect.construct(NativeDate, args.length === 0 ? [nowMs("new Date()")] : args, new.target);
  }
  Object.defineProperty(Date, "length", { value: 7, configurable: true });
  Object.defineProperty(Date, "prototype", { value: NativeDate.prototype, writable: false });
  const statics = { now: () => nowMs("Date.now()"), parse: NativeDate.parse, UTC: NativeDate.UTC };
  for (const [name, value] of Object.entries(statics)) define(Date, name, value);
  define(NativeDate.prototype, "constructor", Date);
  define(globalThis, "Date", Date);
}

function define(target, name, value) {
  Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });
}

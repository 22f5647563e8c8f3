// `AbortController` and `AbortSignal`.

import { $, DOMException } from "../primordials.js";
import { console } from "./console.js";
import { Event, EventTarget } from "./event-target.js";
import { quietTimer } from "./timers.js";

const INTERNAL = Symbol("abort");

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason = undefined;

  constructor(permit) {
    if (permit !== INTERNAL) throw new TypeError("AbortSignal cannot be constructed: use AbortController");
    super();
    this.onabort = null;
  }

  get aborted() {
    return this.#aborted;
  }

  get reason() {
    return this.#reason;
  }

  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }

  [INTERNAL](reason) {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
    const event = new Event("abort");
    if (typeof this.onabort === "function") {
      try {
        this.onabort(event);
      } catch (error) {
        console.error(error);
      }
    }
    this.dispatchEvent(event);
  }

  static abort(reason) {
    const signal = new AbortSignal(INTERNAL);
    signal[INTERNAL](reason);
    return signal;
  }

  static timeout(ms) {
    const signal = new AbortSignal(INTERNAL);
    quietTimer(() => signal[INTERNAL](new DOMException("The operation timed out", "TimeoutError")), ms);
    return signal;
  }

  static any(signals) {
    const all = [...signals];
    const joined = new AbortSignal(INTERNAL);
    const first = all[$.find]((signal) => signal.aborted);
    if (first) joined[INTERNAL](first.reason);
    else for (const signal of all) signal.addEventListener("abort", () => joined[INTERNAL](signal.reason), { once: true });
    return joined;
  }
}

export class AbortController {
  #signal = new AbortSignal(INTERNAL);

  get signal() {
    return this.#signal;
  }

  abort(reason) {
    this.#signal[INTERNAL](reason);
  }
}

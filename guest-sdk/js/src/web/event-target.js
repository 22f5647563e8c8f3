// `Event` and `EventTarget`, as far as signals need them: no tree, no capture phase.

import { $, Map, Object, String } from "../primordials.js";
import { console } from "./console.js";

export class Event {
  #type;
  #cancelable;
  #prevented = false;

  constructor(type, options = {}) {
    this.#type = String(type);
    this.#cancelable = options?.cancelable === true;
    this.target = null;
    this.currentTarget = null;
    this.stopped = false;
    Object.defineProperty(this, "stopped", { enumerable: false });
  }

  get type() {
    return this.#type;
  }

  get cancelable() {
    return this.#cancelable;
  }

  get defaultPrevented() {
    return this.#prevented;
  }

  preventDefault() {
    if (this.#cancelable) this.#prevented = true;
  }

  stopPropagation() {}

  stopImmediatePropagation() {
    this.stopped = true;
  }
}

export class CustomEvent extends Event {
  constructor(type, options = {}) {
    super(type, options);
    this.detail = options?.detail ?? null;
  }
}

export class EventTarget {
  #listeners = new Map();

  addEventListener(type, callback, options) {
    if (callback == null) return;
    const { once = false, signal } = typeof options === "object" && options !== null ? options : {};
    if (signal?.aborted) return;
    const listeners = this.#listeners.get(type) ?? [];
    if (listeners[$.some]((listener) => listener.callback === callback)) return;
    this.#listeners.set(type, [...listeners, { callback, once }]);
    signal?.addEventListener("abort", () => this.removeEventListener(type, callback), { once: true });
  }

  removeEventListener(type, callback) {
    const listeners = this.#listeners.get(type) ?? [];
    this.#listeners.set(type, listeners[$.filter]((listener) => listener.callback !== callback));
  }

  dispatchEvent(event) {
    event.target = event.currentTarget = this;
    for (const { callback, once } of this.#listeners.get(event.type) ?? []) {
      if (once) this.removeEventListener(event.type, callback);
      // A listener that throws must not keep the others from hearing.
      try {
        if (typeof callback === "function") callback[$.call](this, event);
        else callback.handleEvent(event);
      } catch (error) {
        console.error(error);
      }
      if (event.stopped) break;
    }
    return !event.defaultPrevented;
  }
}

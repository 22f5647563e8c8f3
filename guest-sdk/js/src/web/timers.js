// `setTimeout` and its kin: a durable sleep in workflow code, a timer of the attempt in a step's body.

import { $, Map, Math, Number, Object } from "../primordials.js";
import * as host from "../host.js";
import { closeOperation, operationCallback } from "../operations.js";
import { openExchange, turnOwner } from "../turn.js";
import { console } from "./console.js";

/// Live timers by id.
const timers = new Map();
let lastId = 0;

/// The longest sleep, ten years: what is longer is cut to it.
const LONGEST_MS = 315_576_000_000;

export function setTimeout(callback, ms, ...args) {
  return startTimer(callback, ms, args, { missed: true });
}

export function setInterval(callback, ms, ...args) {
  return startTimer(callback, ms, args, { repeats: true });
}

export function setImmediate(callback, ...args) {
  return startTimer(callback, 0, args, { missed: true });
}

/// A timer of the SDK's own, which nobody misses when the run ends before it.
export function quietTimer(callback, ms) {
  startTimer(callback, ms, [], {});
}

export function clearTimer(handle) {
  const id = handle instanceof Timer ? handle.id : Number(handle);
  const timer = timers.get(id);
  if (!timer) return;
  timers.delete(id);
  if (!timer.operation) return;
  try {
    closeOperation(timer.operation);
  } catch {
    // A body may not close what the workflow began: the timer fires unheard.
  }
}

/// What `setTimeout` returns; usable as a number, like a browser's.
class Timer {
  constructor(id) {
    Object.defineProperty(this, "id", { value: id });
  }
  ref() {
    return this;
  }
  unref() {
    return this;
  }
  hasRef() {
    return true;
  }
  [Symbol.toPrimitive]() {
    return this.id;
  }
}

function startTimer(callback, ms, args, { repeats = false, missed = false }) {
  if (typeof callback !== "function") throw new TypeError("a timer's callback must be a function");
  const number = Number(ms);
  const wait = Number.isFinite(number) && number > 0 ? Math.min(Math.ceil(number), LONGEST_MS) : 0;
  const timer = { id: ++lastId, ms: repeats ? Math.max(1, wait) : wait, repeats, missed, fire: () => callback(...args) };
  timers.set(timer.id, timer);
  try {
    arm(timer);
  } catch (error) {
    timers.delete(timer.id);
    throw error;
  }
  return new Timer(timer.id);
}

function arm(timer) {
  const attempt = turnOwner();
  if (attempt === null) {
    timer.operation = operationCallback(host.sleep(timer.ms), `setTimeout of ${timer.ms} ms`, () => elapsed(timer), timer.missed);
  } else if (attempt.open) {
    const over = openExchange(attempt, "setTimeout", (id) => host.delay(id, timer.ms));
    // An expired attempt's timers are given up silently.
    over[$.then](
      () => elapsed(timer),
      () => timers.delete(timer.id),
    );
  } else {
    // What a closed attempt left behind may set timers, but nobody will wake it.
    timers.delete(timer.id);
  }
}

function elapsed(timer) {
  if (!timers.has(timer.id)) return;
  if (!timer.repeats) timers.delete(timer.id);
  try {
    timer.fire();
  } catch (error) {
    console.error("uncaught in a timer:", error);
  }
  if (timer.repeats && timers.has(timer.id)) arm(timer);
}

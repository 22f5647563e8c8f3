// Operations of the run (steps, timers, waits, child runs) as promises. An operation is settled by its own delivery alone.
//
// A closed wait or timer that is awaited after all is begun again, so that a deadline can lose one race and stand in the next:
// `const deadline = sleep("1 h"); for (;;) await Promise.race([deadline, waitForEvent("x")])`.

import { refuse } from "./check.js";
import * as host from "./host.js";
import { WorkflowError } from "./errors.js";
import { fromRecord } from "./record.js";

/// Open operations by number.
const open = new Map();
/// `{ operation, depth }` of a promise: of an operation's own (depth 0), and of those made from it by `then`.
const origins = new WeakMap();
/// Operations that failed before anybody asked for their outcome.
const unheard = new Set();

const nativeThen = Promise.prototype.then;

class Operation extends Promise {
  then(fulfilled, rejected) {
    const derived = super.then(fulfilled, rejected);
    const origin = origins.get(this);
    if (origin) {
      const { operation, depth } = origin;
      unheard.delete(operation);
      operation.listeners++;
      origins.set(derived, { operation, depth: depth + 1 });
      if (operation.closed && operation.again) reopen(operation);
    }
    return derived;
  }
}

/// Registers operation `number` and returns its promise. `what` names it for people.
/// - `decode(json)`: the value of a completion. - `recover(record)`: `{ value }` where a failure is none.
/// - `again()`: begins it anew after it was closed, and returns the number. - `body`: a step's.
export function operationPromise(number, operation) {
  Object.assign(operation, { number, listeners: 0, races: 0, closed: false });
  const promise = new Operation((resolve, reject) => Object.assign(operation, { resolve, reject }));
  // A failure that nothing awaits is no accident of the engine's: it is told when the run ends (see `unheardFailures`).
  nativeThen.call(promise, undefined, () => {});
  open.set(number, operation);
  origins.set(promise, { operation, depth: 0 });
  return promise;
}

/// An operation whose end is told to a function, not to a promise.
export function operationCallback(number, what, resolve) {
  const operation = { number, what, resolve, reject: () => {}, decode: () => null, listeners: 1, races: 0, closed: false };
  open.set(number, operation);
  return operation;
}

export function findOperation(number) {
  return open.get(number);
}

export function completeOperation(number, json) {
  const operation = take(number);
  if (operation) operation.resolve(operation.decode(json));
}

export function failOperation(number, record) {
  const operation = take(number);
  if (!operation) return;
  const recovered = operation.recover?.(record);
  if (recovered) return operation.resolve(recovered.value);
  if (operation.listeners === 0) unheard.add(operation);
  operation.reject(fromRecord(record));
}

function take(number) {
  const operation = open.get(number);
  open.delete(number);
  return operation;
}

/// Loses interest in an open operation. Whoever still awaits it hears of that, unless it can be begun again for them.
export function closeOperation(operation, awaited = true) {
  if (!open.has(operation.number)) return;
  host.close(operation.number);
  open.delete(operation.number);
  operation.closed = true;
  if (awaited || !operation.again) {
    operation.reject(new WorkflowError("workflows.cancelled", `${operation.what} lost a race and was closed`));
  }
}

function reopen(operation) {
  operation.number = operation.again();
  operation.closed = false;
  open.set(operation.number, operation);
}

/// What failed without anybody having asked for its outcome.
export function unheardFailures() {
  return [...unheard].map((operation) => operation.what);
}

const nativeRace = Promise.race;

/// The first of these to settle; the operations among the others are closed: a wait gives its place up, a timer is removed,
/// a step's attempt expires.
export function race(contenders) {
  const all = typeof contenders?.[Symbol.iterator] === "function" ? [...contenders] : [];
  // Nothing would ever win a race of nobody.
  if (all.length === 0) refuse("race", "an array of promises, with at least one", contenders);
  return raceAndClose(Promise, all, () => true);
}

/// `Promise.race` closes the timers and waits among its losers, since a wait left open would swallow an event, unless they are
/// awaited elsewhere too. It leaves steps and child runs going: whoever races them may well await them afterwards.
export function installPromiseRace() {
  Object.defineProperty(Promise, "race", {
    value: function race(contenders) {
      return raceAndClose(this, [...contenders], (operation, awaited) => operation.again !== undefined && !awaited);
    },
    writable: true,
    configurable: true,
  });
}

function raceAndClose(Type, contenders, closes) {
  const winner = nativeRace.call(Type, contenders);
  const losers = contenders.map((contender) => origins.get(contender)).filter((origin) => origin !== undefined);
  if (losers.length === 0) return winner;
  for (const { operation } of losers) operation.races++;
  const closeLosers = () => {
    for (const { operation, depth } of losers) {
      // Its listeners are this and earlier races, and the chain of `then` that leads to the contender. Any other still waits.
      const awaited = operation.listeners > operation.races + depth;
      if (closes(operation, awaited)) closeQuietly(operation, awaited);
    }
  };
  winner.then(closeLosers, closeLosers);
  return winner;
}

function closeQuietly(operation, awaited) {
  try {
    closeOperation(operation, awaited);
  } catch (error) {
    // Refused in a body's turn, or gone already: it stays open and is settled by its own delivery.
    host.log("debug", `${operation.what} could not be closed: ${error.message}`, null);
  }
}

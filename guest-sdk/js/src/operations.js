// Operations of the run (steps, timers, waits, child runs) as promises. An operation is settled by its own delivery alone.
//
// A closed wait or timer that is awaited after all is begun again, so that a deadline can lose one race and stand in the next:
// `const deadline = sleep("1 h"); for (;;) await Promise.race([deadline, waitForEvent("x")])`.

import { $, Map, Object, Promise, WeakMap, deferred, nativeRace } from "./primordials.js";
import { refuse } from "./check.js";
import * as host from "./host.js";
import { WorkflowError } from "./errors.js";
import { fromRecord, messageOf } from "./record.js";

/// Open operations by number.
const open = new Map();
/// `{ operation, depth }` of a promise: of an operation's own (depth 0), and of those made from it by `then`.
const origins = new WeakMap();
/// Promises of these that were rejected before anybody asked for their outcome, and what to say of each.
const unheard = new Map();

/// What `then` of an operation's promise makes: another of these, or, where nobody is given it, the engine's own, which costs less.
let species;

class Operation extends Promise {
  static get [Symbol.species]() {
    return species;
  }

  then(fulfilled, rejected) {
    const derived = this[$.then](fulfilled, rejected);
    const origin = origins.get(this);
    if (origin) {
      const { operation, depth } = origin;
      origin.heard = true;
      unheard.delete(this);
      operation.listeners++;
      watch(derived, trace(derived, operation, depth + 1));
      if (operation.closed && operation.again) reopen(operation);
    }
    return derived;
  }
}

species = Operation;

/// Remembers where a promise comes from.
function trace(promise, operation, depth) {
  const origin = { operation, depth, heard: false };
  origins.set(promise, origin);
  return origin;
}

/// Remembers a rejection that nobody has asked for. The engine does not tell of those; they are told when the run ends (see
/// `leftOver`), since who holds the promise may still ask.
function watch(promise, origin) {
  species = undefined;
  promise[$.then](undefined, (error) => {
    const { operation, depth, heard } = origin;
    if (!heard) unheard.set(promise, { what: depth === 0 ? operation.what : `what was to follow ${operation.what}`, error });
  });
  species = Operation;
}

/// Registers operation `number` and returns its promise. `what` names it for people.
/// - `decode(json)`: the value of a completion. - `recover(record)`: `{ value }` where a failure is none.
/// - `again()`: begins it anew after it was closed, and returns the number. - `body`: a step's.
export function operationPromise(number, operation) {
  operation.number = number;
  operation.listeners = operation.races = 0;
  operation.closed = false;
  const { promise, resolve, reject } = deferred(Operation);
  const origin = trace(promise, operation, 0);
  operation.resolve = resolve;
  // It is rejected here alone: nobody need listen for that before.
  operation.reject = (error) => {
    if (!origin.heard) watch(promise, origin);
    reject(error);
  };
  open.set(number, operation);
  return promise;
}

/// Whether a promise is an operation's, or made from one by `then`.
export function isTraced(promise) {
  return origins.has(promise);
}

/// An operation whose end is told to a function, not to a promise. Where `missed` is given, that function was never called is
/// worth telling.
export function operationCallback(number, what, resolve, missed) {
  const operation = { number, what, resolve, missed, reject: () => {}, decode: () => null, listeners: 1, races: 0, closed: false };
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

/// What the workflow leaves behind at its end, for people: failures that nobody awaited, and, where it `returned`, operations that
/// nobody awaited or that are given up.
export function leftOver(returned) {
  const told = [];
  for (const { what, error } of unheard.values()) told[$.push](`${what} failed, and nothing awaited it: ${messageOf(error)}`);
  for (const operation of open.values()) {
    const text = giving(operation, returned);
    if (text) told[$.push](`${operation.what} ${text}`);
  }
  return told;
}

function giving({ listeners, body, missed }, returned) {
  if (missed) return returned && "had not fired when the workflow returned: what it was to call is not called";
  if (listeners === 0) return "was begun and never awaited, and the run ends without it, whether it has run or not: await its promise";
  return returned && body && "was still open when the workflow returned: it is given up, and its result is lost";
}

/// The first of these to settle; the operations among the others are closed: a wait gives its place up, a timer is removed,
/// a step's attempt expires.
export function race(contenders) {
  const all = typeof contenders?.[Symbol.iterator] === "function" ? [...contenders] : [];
  // Nothing would ever win a race of nobody.
  if (all.length === 0) refuse("race", "an array of promises, with at least one", contenders);
  return raceAndClose(firstOf(all), all, () => true);
}

/// `Promise.race` closes the timers and waits among its losers, since a wait left open would swallow an event, unless they are
/// awaited elsewhere too. It leaves steps and child runs going: whoever races them may well await them afterwards.
export function installPromiseRace() {
  Object.defineProperty(Promise, "race", {
    value: function race(contenders) {
      const all = [...contenders];
      const first = this === Promise ? firstOf(all) : nativeRace[$.call](this, all);
      return raceAndClose(first, all, (operation, awaited) => operation.again !== undefined && !awaited);
    },
    writable: true,
    configurable: true,
  });
}

/// `Promise.race`, whatever has become of that.
function firstOf(contenders) {
  return new Promise((resolve, reject) => {
    for (const contender of contenders) {
      // An operation's own `then` tells that it is awaited.
      if (contender instanceof Operation) contender.then(resolve, reject);
      else if (contender instanceof Promise) contender[$.then](resolve, reject);
      else new Promise((settle) => settle(contender))[$.then](resolve, reject);
    }
  });
}

function raceAndClose(winner, contenders, closes) {
  const losers = contenders[$.map]((contender) => origins.get(contender))[$.filter]((origin) => origin !== undefined);
  if (losers.length === 0) return winner;
  for (const { operation } of losers) operation.races++;
  const closeLosers = () => {
    for (const { operation, depth } of losers) {
      // Its listeners are this and earlier races, and the chain of `then` that leads to the contender. Any other still waits.
      const awaited = operation.listeners > operation.races + depth;
      if (closes(operation, awaited)) closeQuietly(operation, awaited);
    }
  };
  winner[$.then](closeLosers, closeLosers);
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

// Whose turn it is, and which attempts and exchanges are open. Every delivery begins a turn; a turn begun by a step's attempt,
// an answer to it or its expiry belongs to that attempt, every other to the workflow's code.

import { $, Map, Promise, DOMException } from "./primordials.js";
import * as host from "./host.js";
import { WorkflowError } from "./errors.js";
import { AbortController } from "./web/abort.js";

/// The attempt that owns this turn, or null in the workflow's own.
let owner = null;
/// Open attempts by "operation/number".
const attempts = new Map();
/// Open exchanges by number: `{ attempt, resolve, reject }`.
const exchanges = new Map();

export function turnOwner() {
  return owner;
}

export function openAttempts() {
  return attempts.size;
}

export function beginWorkflowTurn() {
  owner = null;
}

/// Begins an attempt and its first turn.
export function beginAttempt(event) {
  const attempt = {
    id: event.id,
    name: nameOf(event.id),
    idempotencyKey: event.idempotencyKey,
    operationKey: event.operationKey,
    open: true,
    /// Told when the attempt ends: failures that its body did not wait for.
    unheard: [],
    /// Made when its signal is asked for, which few bodies do. `reason`: why it fired, or would have.
    controller: null,
    reason: null,
  };
  attempts.set(attempt.name, attempt);
  owner = attempt;
  return attempt;
}

/// The signal that fires when the host closes the attempt.
export function signalOf(attempt) {
  if (attempt.controller === null) {
    attempt.controller = new AbortController();
    if (attempt.reason !== null) attempt.controller.abort(attempt.reason);
  }
  return attempt.controller.signal;
}

/// The attempt has answered: what its body leaves behind can do nothing more under its name.
export function endAttempt(attempt) {
  attempt.open = false;
  attempts.delete(attempt.name);
  if (attempt.unheard.length > 0) for (const tell of attempt.unheard[$.splice](0)) tell();
}

/// The host has closed the attempt: its signal fires and what it waits for is given up.
export function expireAttempt(id) {
  const attempt = attempts.get(nameOf(id));
  owner = attempt ?? closedAttempt(id);
  if (!attempt) return;
  endAttempt(attempt);
  const reason = new DOMException("the attempt was closed: its time is over, or nobody waits for it any more", "AbortError");
  attempt.reason = reason;
  attempt.controller?.abort(reason);
  for (const [number, exchange] of exchanges) {
    if (exchange.attempt !== attempt) continue;
    exchanges.delete(number);
    exchange.reject(reason);
  }
}

/// Opens an exchange of an attempt; `begin` asks the host and returns its number.
export function openExchange(attempt, what, begin) {
  if (!attempt.open) throw closed(what);
  const number = begin(attempt.id);
  return new Promise((resolve, reject) => exchanges.set(number, { attempt, resolve, reject }));
}

/// Sends a request, as `host.httpSend` takes it, and tells its end to one of the two.
export function openRequest(attempt, request, resolve, reject) {
  if (!attempt.open) throw closed(`${request.method} ${request.url}`);
  exchanges.set(host.httpSend(attempt.id, request), { attempt, resolve, reject });
}

function closed(what) {
  return new WorkflowError("workflows.attempt_closed", `${what}: this attempt of the step is over`, { retry: "never" });
}

/// Takes an exchange out of the table and gives its turn to its attempt. Undefined where nobody waits for it any more.
export function takeExchange(number) {
  const exchange = exchanges.get(number);
  exchanges.delete(number);
  owner = exchange?.attempt ?? closedAttempt(null);
  return exchange;
}

/// A turn that belongs to an attempt which is gone: nothing may be begun in it.
function closedAttempt(id) {
  return { id, open: false };
}

function nameOf({ operation, number }) {
  return `${operation}/${number}`;
}

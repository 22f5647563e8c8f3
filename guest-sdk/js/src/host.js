// The border: the only file that knows in what shape the contract (`workflow.wit`) appears here. Everything else speaks
// of plain values: an option is a value or null, an error a record as `record.js` makes it, an event a `{ kind, ... }`.
//
// The shape: a record is an object with camelCase fields, a variant `{ tag, val }`, an enum its case's name, an option the
// value or null, bytes a Uint8Array, a u64 a number; a `result` returns its ok value and throws the other, as it is or as an
// Error's `payload`. A value of another type would end the instance, so what arrives here has been checked before.

import commands from "stepwell:workflow/commands@0.1.0";
import turns from "stepwell:workflow/turns@0.1.0";

import { $, Array } from "./primordials.js";
import { isCalledByPackage } from "./place.js";
import { fromRecord } from "./record.js";
import { WorkflowError } from "./errors.js";

/// While a module's top level runs (once, when it is built) there is no run, and nothing to ask the host for.
let live = false;

export function goLive() {
  live = true;
}

export function isLive() {
  return live;
}

function needRun(what) {
  if (live) return;
  throw new WorkflowError(
    "workflows.effect_outside_step",
    `${what} is not available at a module's top level: that code runs once, when the module is built, and its state is kept. ` +
      "Move it into the workflow's handler or into a step's body",
    { retry: "never" },
  );
}

/// What a command threw: its refusal as an error, where it is one.
function refusalOf(error) {
  const refusal = error?.payload ?? error;
  if (typeof refusal?.retryability?.tag !== "string") return error;
  return fromRecord(recordFromWire(refusal), WorkflowError);
}

// Commands whose refusal is an error record, by the number of their arguments: a call takes no more and no fewer. A function that is
// made for each call, or a rest parameter, would cost as much as the call.

const command1 = (what, name) => (first) => {
  needRun(what);
  try {
    return commands[name](first);
  } catch (error) {
    throw refusalOf(error);
  }
};

const command2 = (what, name) => (first, second) => {
  needRun(what);
  try {
    return commands[name](first, second);
  } catch (error) {
    throw refusalOf(error);
  }
};

const command3 = (what, name) => (first, second, third) => {
  needRun(what);
  try {
    return commands[name](first, second, third);
  } catch (error) {
    throw refusalOf(error);
  }
};

export const stepBegin = command2("step.run", "stepBegin");
export const sleep = command1("sleep", "sleep");
export const waitEvent = command2("waitForEvent", "waitEvent");
export const startRun = command3("start", "startRun");
export const sendEvent = command3("sendEvent", "sendEvent");
export const close = command1("close", "close");
export const continueAsNew = command1("continueAsNew", "continueAsNew");
export const delay = command2("delay", "delay");

const stepFinish = command2("a step's result", "stepFinish");
export const stepSucceed = (attempt, json) => stepFinish(attempt, { tag: "ok", val: json });
export const stepFail = (attempt, record) => stepFinish(attempt, { tag: "err", val: recordToWire(record) });

const httpSendWire = command2("fetch", "httpSend");
/// `request.key` is "effect", "attempt", "operation", "none" or `{ custom: text }`; the request is the host's from here on.
export function httpSend(attempt, request) {
  needRun("fetch");
  const { key } = request;
  request.key = typeof key === "string" ? { tag: key } : { tag: "custom", val: key.custom };
  return httpSendWire(attempt, request);
}

export function nowMs(what = "the time") {
  // Packages look at the clock when they are loaded, to measure from. What is baked in there is the same in every run.
  if (!live && isCalledByPackage()) return 0;
  needRun(what);
  return commands.nowMs();
}

/// A random number of 64 bits, of which the upper 53 survive the crossing.
export function randomU64(what = "randomness") {
  needRun(what);
  return commands.randomU64();
}

export function runId() {
  needRun("runId");
  return commands.runId();
}

export function setStatus(text) {
  needRun("setStatus");
  commands.setStatus(text);
}

/// A line of the run's log; before there is a run, of the build's output. The one command that is always there.
export function log(level, message, fields) {
  commands.log(level, message, fields);
}

/// A promise of the next event, which `eventFromWire` makes plain.
export const next = () => turns.next();

export function eventFromWire({ tag, val }) {
  switch (tag) {
    case "attempt":
      return {
        kind: "attempt",
        id: val.id,
        reconcile: val.kind === "reconcile",
        idempotencyKey: val.idempotencyKey,
        operationKey: val.operationKey,
        deadlineMs: val.deadlineMs ?? null,
      };
    case "expired":
      return { kind: "expired", id: val };
    case "answered":
      return answeredFromWire(val.exchange, val.answer);
    case "completed":
      return { kind: "completed", operation: val.operation, json: val.value };
    case "failed":
      return { kind: "failed", operation: val.operation, error: recordFromWire(val.error) };
    case "cancelled":
      return { kind: "cancelled" };
    default:
      throw new Error(`the host delivered an event that this SDK does not know: ${tag}`);
  }
}

function answeredFromWire(exchange, { tag, val }) {
  if (tag !== "ok") return { kind: "answered", exchange, error: recordFromWire(val), response: null };
  if (val.tag === "elapsed") return { kind: "answered", exchange, error: null, response: null };
  const answer = val.val;
  const response = { status: answer.status, headers: answer.headers, body: new Uint8Array(answer.body), recorded: answer.recorded };
  return { kind: "answered", exchange, error: null, response };
}

function recordFromWire(wire) {
  const { tag, val } = wire.retryability;
  return {
    code: wire.code,
    name: wire.name ?? null,
    message: wire.message,
    details: wire.details ?? null,
    causes: Array.from(wire.causes, (cause) => ({ name: cause.name ?? null, message: cause.message })),
    retry: tag === "never" ? "never" : tag === "after-ms" ? val : null,
    outcomeUnknown: wire.outcomeUnknown,
  };
}

/// An error record as the host takes it; also what `run` rejects with.
export function recordToWire(record) {
  const { retry } = record;
  return {
    code: record.code[$.toWellFormed](),
    name: record.name?.[$.toWellFormed]() ?? null,
    message: record.message[$.toWellFormed](),
    details: record.details,
    causes: record.causes[$.map](({ name, message }) => ({
      name: name?.[$.toWellFormed]() ?? null,
      message: message[$.toWellFormed](),
    })),
    retryability: retry === "never" ? { tag: "never" } : retry === null ? { tag: "retry" } : { tag: "after-ms", val: retry },
    outcomeUnknown: record.outcomeUnknown,
  };
}

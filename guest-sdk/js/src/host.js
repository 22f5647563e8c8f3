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

/// Calls a command whose refusal is an error record.
function command(what, call) {
  needRun(what);
  try {
    return call();
  } catch (error) {
    const refusal = error?.payload ?? error;
    if (typeof refusal?.retryability?.tag !== "string") throw error;
    throw fromRecord(recordFromWire(refusal), WorkflowError);
  }
}

export const stepBegin = (name, options) => command("step.run", () => commands.stepBegin(name, options));
export const sleep = (ms) => command("sleep", () => commands.sleep(ms));
export const waitEvent = (name, timeoutMs) => command("waitForEvent", () => commands.waitEvent(name, timeoutMs));
export const startRun = (workflow, input, options) => command("start", () => commands.startRun(workflow, input, options));
export const sendEvent = (run, name, payload) => command("sendEvent", () => commands.sendEvent(run, name, payload));
export const close = (operation) => command("close", () => commands.close(operation));
export const continueAsNew = (input) => command("continueAsNew", () => commands.continueAsNew(input));
export const delay = (attempt, ms) => command("delay", () => commands.delay(attempt, ms));

export const stepSucceed = (attempt, json) =>
  command("a step's result", () => commands.stepFinish(attempt, { tag: "ok", val: json }));
export const stepFail = (attempt, record) =>
  command("a step's result", () => commands.stepFinish(attempt, { tag: "err", val: recordToWire(record) }));

/// `request.key` is "effect", "attempt", "operation", "none" or `{ custom: text }`.
export const httpSend = (attempt, request) =>
  command("fetch", () => {
    const { key } = request;
    const wire = typeof key === "string" ? { tag: key } : { tag: "custom", val: key.custom };
    return commands.httpSend(attempt, { ...request, key: wire });
  });

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
      return { kind: "answered", exchange: val.exchange, ...answerFromWire(val.answer) };
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

function answerFromWire({ tag, val }) {
  if (tag !== "ok") return { error: recordFromWire(val) };
  if (val.tag === "elapsed") return { response: null };
  const { status, headers, body, recorded } = val.val;
  return { response: { status, headers, body: new Uint8Array(body), recorded } };
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

// The context that a workflow's handler is given. Its functions need no `this`, so that it can be taken apart.

import { $, Array, Math, Object, Promise, DOMException } from "./primordials.js";
import * as check from "./check.js";
import * as host from "./host.js";
import { now, random } from "./clock.js";
import { durationMs, instantMs } from "./duration.js";
import { decode, encode } from "./json.js";
import { operationPromise } from "./operations.js";
import { runStep } from "./step.js";
import { AbortController } from "./web/abort.js";
import { inspect } from "./web/inspect.js";

const controller = new AbortController();

export function runContext(input) {
  return {
    input,
    // In what a rerun has of another run it is that one's, and its own from there.
    get runId() {
      return host.runId();
    },
    step: { run: runStep },
    sleep,
    sleepUntil,
    waitForEvent,
    start,
    sendEvent,
    continueAsNew,
    now,
    random,
    log,
    setStatus,
    signal: controller.signal,
  };
}

/// The run was asked to cancel. Its open operations fail by their own deliveries; the signal only tells of it.
export function cancelRun() {
  controller.abort(new DOMException("the run was asked to cancel", "AbortError"));
}

export function sleep(duration) {
  return sleepMs(durationMs("sleep", duration));
}

export function sleepUntil(instant) {
  return sleepMs(Math.max(0, instantMs("sleepUntil", instant) - now()));
}

function sleepMs(ms) {
  const due = now() + ms;
  const again = () => host.sleep(Math.max(0, due - now()));
  return operationPromise(host.sleep(ms), { what: `a sleep of ${ms} ms`, again, decode: () => undefined });
}

/// The event's payload, or null when it did not come in time.
export function waitForEvent(name, options) {
  check.text("waitForEvent, name", name);
  const where = `waitForEvent("${name}")`;
  const given = check.options(`${where}, options`, options, ["timeoutMs"]);
  const timeoutMs = check.optionalMs(`${where}, timeoutMs`, given.timeoutMs);
  const again = () => host.waitEvent(name[$.toWellFormed](), timeoutMs);
  const recover = ({ code }) => (code === "workflows.wait_timeout" ? { value: null } : undefined);
  return operationPromise(again(), { what: `the wait for event "${name}"`, again, recover, decode });
}

/// Starts a child run: its result, or its run id where it is detached.
export function start(workflow, input, options) {
  // The value that `workflow(...)` returns names it as well.
  const name = check.text("start, workflow", typeof workflow === "object" && workflow !== null ? workflow.name : workflow);
  const where = `start("${name}")`;
  const given = check.options(`${where}, options`, options, ["runKey", "detached", "onParentClose", "tags"]);
  const number = host.startRun(name, encode(`${where}, input`, input), {
    runKey: check.optionalText(`${where}, runKey`, given.runKey),
    detached: check.flag(`${where}, detached`, given.detached, false),
    onParentClose: check.oneOf(`${where}, onParentClose`, given.onParentClose ?? "cancel", ["cancel", "abandon"]),
    tags: tags(`${where}, tags`, given.tags),
  });
  return operationPromise(number, { what: `the child run of "${name}"`, decode });
}

function tags(where, given) {
  if (given === undefined) return [];
  if (typeof given !== "object" || given === null || Array.isArray(given)) check.refuse(where, "an object of strings", given);
  return Object.entries(given)[$.map](([key, value]) => [key[$.toWellFormed](), check.text(`${where}.${key}`, value, { empty: true })]);
}

export function sendEvent(run, name, payload) {
  check.text("sendEvent, run id", run);
  check.text("sendEvent, name", name);
  const number = host.sendEvent(run[$.toWellFormed](), name[$.toWellFormed](), encode(`sendEvent("${name}"), payload`, payload));
  return operationPromise(number, { what: `the event "${name}" to ${run}`, decode: () => undefined });
}

let endRun;

/// `end` is called once the run is to end so that a fresh one goes on.
export function whenContinued(end) {
  endRun = end;
}

/// Ends this run and goes on in a fresh one. What is answered never settles: nothing of the handler runs after it where it is
/// returned or awaited.
export function continueAsNew(input) {
  host.continueAsNew(encode("continueAsNew, input", input));
  endRun();
  return new Promise(() => {});
}

export function setStatus(status) {
  host.setStatus(check.text("setStatus", status, { empty: true }));
}

/// A line of the run's log, with fields of data. `log(...)` is `log.info(...)`. It refuses nothing: where a run is in trouble, a line that
/// tells of it must not be what ends it.
export const log = lineOf("info");
for (const level of ["trace", "debug", "info", "warn", "error"]) log[level] = lineOf(level);

function lineOf(level) {
  return (message, fields) => {
    const text = typeof message === "string" ? message : inspect(message);
    host.log(level, text[$.toWellFormed](), fields === undefined ? null : fieldsOf(fields));
  };
}

/// As JSON; what that has no form for, as a text.
function fieldsOf(fields) {
  try {
    return encode("log, fields", fields);
  } catch {
    return encode("log, fields", inspect(fields));
  }
}

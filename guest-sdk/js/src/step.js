// `step.run`: durable work. The workflow's side begins the operation; the body's side runs when an attempt is delivered.
// All decisions about attempts, delays and time-outs are the host's.

import { $ } from "./primordials.js";
import * as check from "./check.js";
import * as host from "./host.js";
import { WorkflowError } from "./errors.js";
import { decode, encode, encodePlain } from "./json.js";
import { durationMs } from "./duration.js";
import { findOperation, operationPromise } from "./operations.js";
import { placeOfFault } from "./place.js";
import { toRecord } from "./record.js";
import { beginAttempt, endAttempt, openExchange, signalOf } from "./turn.js";
import { httpClient } from "./http/client.js";
import { fetchOf } from "./http/fetch.js";

const RETRY_FIELDS = ["maxAttempts", "initialMs", "maxMs", "multiplier", "jitter"];
const STEP_FIELDS = ["retry", "timeoutMs", "effect", "keyTtlMs", "operationKey"];
const INVALID_POLICY = "workflows.invalid_policy";
/// Of a step that says nothing: the workflow's own and the defaults hold.
const NO_OPTIONS = stepOptions("", undefined);

export function runStep(name, body, options) {
  const wellFormed = check.text("step.run, name", name);
  if (typeof body !== "function") check.func(`step.run("${name}"), body`, body);
  const given = options == null ? NO_OPTIONS : stepOptions(`step.run("${name}"), options`, options);
  return operationPromise(host.stepBegin(wellFormed, given), { what: `step "${name}"`, body, decode });
}

function stepOptions(where, given) {
  if (given?.reconcile !== undefined) {
    throw new WorkflowError("workflows.unsupported", `${where}: reconcile is not supported yet`, { retry: "never" });
  }
  const options = check.options(where, given, STEP_FIELDS);
  const { effect } = options;
  return {
    retry: retryPolicy(`${where}, retry`, options.retry),
    timeoutMs: check.optionalMs(`${where}, timeoutMs`, options.timeoutMs),
    effect: effect == null ? null : check.oneOf(`${where}, effect`, effect, ["repeatable", "keyed", "once"]),
    keyTtlMs: check.optionalMs(`${where}, keyTtlMs`, options.keyTtlMs),
    operationKey: check.optionalText(`${where}, operationKey`, options.operationKey),
    reconciles: false,
    approval: null,
    reserve: null,
  };
}

/// The fields of a retry policy; their ranges are the host's to check.
export function retryPolicy(where, given) {
  const policy = check.options(where, given, RETRY_FIELDS, INVALID_POLICY);
  return {
    maxAttempts: check.optionalCount(`${where}, maxAttempts`, policy.maxAttempts, INVALID_POLICY),
    initialMs: check.optionalMs(`${where}, initialMs`, policy.initialMs, INVALID_POLICY),
    maxMs: check.optionalMs(`${where}, maxMs`, policy.maxMs, INVALID_POLICY),
    multiplier: check.optionalNumber(`${where}, multiplier`, policy.multiplier, INVALID_POLICY),
    jitter: check.optionalNumber(`${where}, jitter`, policy.jitter, INVALID_POLICY),
  };
}

/// Runs the body of an attempt that was delivered. Never rejects: whatever becomes of the body is told to the host.
export async function runAttempt(event) {
  const attempt = beginAttempt(event);
  let result;
  try {
    const operation = findOperation(event.id.operation);
    if (!operation?.body || event.reconcile) {
      throw new WorkflowError("workflows.unsupported", "there is no body for this attempt", { retry: "never" });
    }
    const value = await operation.body(bodyContext(attempt));
    const json = encodePlain(value) ?? encode(`the result of ${operation.what}`, value);
    result = () => host.stepSucceed(attempt.id, json);
  } catch (thrown) {
    const record = toRecord(thrown, "workflows.step_failed");
    // Once: the next attempts most likely fail there too.
    const place = event.id.number === 1 ? placeOfFault(thrown) : null;
    if (place && attempt.open) host.log("warn", `${record.name ?? "an error"} at ${place}`[$.toWellFormed](), null);
    result = () => host.stepFail(attempt.id, record);
  }
  // A closed attempt's outcome interests nobody; its successor has begun, or the step is over.
  if (!attempt.open) return;
  endAttempt(attempt);
  finish(attempt, result);
}

/// A refused outcome (a result that is too large, for one) becomes the attempt's failure, so that no attempt stays open.
function finish(attempt, result) {
  try {
    result();
  } catch (refusal) {
    if (refusal?.code === "workflows.attempt_closed") return;
    try {
      host.stepFail(attempt.id, toRecord(refusal, "workflows.step_failed"));
    } catch (again) {
      if (again?.code !== "workflows.attempt_closed") host.log("error", `a step's outcome was refused: ${again?.message}`, null);
    }
  }
}

/// What a step's body is given. What costs more than a field is made when it is asked for: most bodies use little of it.
function bodyContext(attempt) {
  let http, fetch;
  return {
    idempotencyKey: attempt.idempotencyKey,
    operationKey: attempt.operationKey,
    attempt: attempt.id.number,
    get signal() {
      return signalOf(attempt);
    },
    get http() {
      return (http ??= httpClient(attempt));
    },
    get fetch() {
      return (fetch ??= fetchOf(() => attempt));
    },
    delay: (duration) => delay(attempt, duration),
  };
}

async function delay(attempt, duration) {
  const ms = durationMs("delay", duration);
  await openExchange(attempt, "delay", (id) => host.delay(id, ms));
}

// Errors to records and back. A record is what crosses the border and stands in the journal:
// `{ code, name, message, details (JSON text), causes: [{ name, message }], retry, outcomeUnknown }`.
//
// Whatever is thrown gets a record: this code trusts no getter, no prototype and no `toString` of the thrown value.

import { $, Array, JSON } from "./primordials.js";
import { RETRY, StepError, WorkflowError, hidden } from "./errors.js";
import { stringify } from "./stringify.js";
import { inspect } from "./web/inspect.js";

const MAX_CAUSES = 16;
const MAX_CHAIN = 1_000;
const MAX_TEXT = 64 * 1024;

/// The record of a thrown value. `fallbackCode` is the code of what has none of its own.
export function toRecord(thrown, fallbackCode) {
  const chain = causeChain(thrown);
  const code = read(thrown, "code");
  return {
    code: typeof code === "string" && code !== "" && code.length <= 200 ? code : (engineCode(thrown) ?? fallbackCode),
    name: nameOf(thrown),
    message: messageOf(thrown),
    details: detailsOf(thrown),
    causes: [...chain[$.slice](1), ...errorsOf(thrown)][$.slice](0, MAX_CAUSES)[$.map]((link) => ({ name: nameOf(link), message: messageOf(link) })),
    retry: chain[$.map]((link) => read(link, RETRY))[$.find](isRetry) ?? null,
    outcomeUnknown: chain[$.some]((link) => isA(link, WorkflowError) && read(link, "outcomeUnknown") === true),
  };
}

/// What an `AggregateError` gathers, which would be lost with it otherwise.
function errorsOf(thrown) {
  const errors = isA(thrown, AggregateError) ? read(thrown, "errors") : undefined;
  return Array.isArray(errors) ? errors[$.slice](0, MAX_CAUSES) : [];
}

/// Limits of the engine itself, which it reports as errors like any other.
function engineCode(thrown) {
  const message = isA(thrown, Error) ? read(thrown, "message") : undefined;
  if (message === "Maximum call stack size exceeded" || message === "stack overflow") return "workflows.stack_overflow";
  return message === "out of memory" ? "workflows.memory_limit" : undefined;
}

/// The error of a record, of the given class.
export function fromRecord(record, Type = StepError) {
  const options = { details: parseDetails(record.details), outcomeUnknown: record.outcomeUnknown, retry: record.retry };
  if (record.name) options.name = record.name;
  const cause = record.causes[$.reduceRight]((inner, link) => causeError(link, inner), undefined);
  if (cause) options.cause = cause;
  return new Type(record.code, record.message, options);
}

function causeError({ name, message }, cause) {
  const error = new Error(message, cause && { cause });
  if (name) hidden(error, { name });
  return error;
}

function parseDetails(json) {
  if (json === null) return undefined;
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/// The thrown value and its causes, outermost first; ends where the chain bites its own tail.
function causeChain(thrown) {
  const chain = [];
  for (let link = thrown; chain.length < MAX_CHAIN; link = read(link, "cause")) {
    if (chain.length > 0 && (link === undefined || chain[$.includes](link))) break;
    chain[$.push](link);
  }
  return chain;
}

function isRetry(value) {
  return value === "never" || (typeof value === "number" && value >= 0);
}

function nameOf(thrown) {
  if (!isObject(thrown)) return null;
  const name = read(thrown, "name");
  // A class that extends Error without setting `name` inherits "Error": its own name says more.
  if (typeof name === "string" && name !== "" && name !== "Error") return name[$.slice](0, 200);
  const type = read(read(thrown, "constructor"), "name");
  if (isA(thrown, Error) && typeof type === "string" && type !== "") return type[$.slice](0, 200);
  return typeof name === "string" && name !== "" ? name : null;
}

/// The message of whatever was thrown.
export function messageOf(thrown) {
  if (typeof thrown === "string") return thrown[$.slice](0, MAX_TEXT);
  if (isObject(thrown)) {
    const message = read(thrown, "message");
    if (message === "" && isA(thrown, AggregateError)) return "all of these failed";
    if (typeof message === "string" && (message !== "" || isA(thrown, Error))) return message[$.slice](0, MAX_TEXT);
  }
  return inspect(thrown)[$.slice](0, MAX_TEXT);
}

function detailsOf(thrown) {
  if (!isObject(thrown)) return null;
  const own = read(thrown, "details");
  // A thrown object that is no error has no other place for its data.
  const data = own !== undefined || isA(thrown, Error) || typeof thrown === "function" ? own : thrown;
  try {
    return stringify(data) ?? null;
  } catch {
    return null;
  }
}

function isObject(value) {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function isA(value, Type) {
  try {
    return value instanceof Type;
  } catch {
    return false;
  }
}

function read(value, key) {
  if (!isObject(value)) return undefined;
  try {
    return value[key];
  } catch {
    return undefined;
  }
}

// Values to JSON text and back, with errors that say what was wrong, and where.
//
// What JSON has no form for is an error where it would be one at every attempt (a cycle, a BigInt, too deep), and a warning in the
// log where `JSON.stringify` quietly makes something else of it (a Map becomes `{}`).

import { $, JSON, Number, String } from "./primordials.js";
import { ArgumentError } from "./errors.js";
import { brief } from "./check.js";
import * as host from "./host.js";
import { stringify } from "./stringify.js";

/// Places that a warning names.
const MAX_PLACES = 5;

/// The JSON text of what nothing can be wrong with, as most results are; undefined for all else.
export function encodePlain(value) {
  if (value === undefined || value === null) return "null";
  return typeof value === "string" || typeof value === "boolean" || Number.isFinite(value) ? JSON.stringify(value) : undefined;
}

/// The JSON text of a value, as `JSON.stringify` has it; `undefined` is `null`.
export function encode(where, value) {
  const plain = encodePlain(value);
  if (plain !== undefined) return plain;
  if (typeof value === "function" || typeof value === "symbol") {
    throw new ArgumentError(`${where}: ${brief(value)} is no JSON value`);
  }
  const lost = [];
  let text;
  try {
    text = stringify(value, lost);
  } catch (cause) {
    throw new ArgumentError(`${where} cannot be written as JSON: ${reason(cause)}`, { cause });
  }
  if (lost.length > 0) host.log("warn", `${where}, written as JSON: ${lost[$.slice](0, MAX_PLACES)[$.join]("; ")}`, null);
  return text === undefined ? "null" : text;
}

export function decode(text) {
  return JSON.parse(text);
}

function reason(cause) {
  try {
    return String(cause?.message ?? cause);
  } catch {
    return "its conversion threw";
  }
}

// Values to JSON text and back, with errors that say what was wrong.

import { ArgumentError } from "./errors.js";
import { brief } from "./check.js";

/// The JSON text of a value, as `JSON.stringify` has it; `undefined` is `null`.
export function encode(where, value) {
  if (typeof value === "function" || typeof value === "symbol") {
    throw new ArgumentError(`${where}: ${brief(value)} is no JSON value`);
  }
  let text;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new ArgumentError(`${where} cannot be written as JSON: ${reason(cause)}`, { cause });
  }
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

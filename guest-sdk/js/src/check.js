// Checks of what an author passes to the SDK. A value of the wrong type that reached the border would end the instance, so
// nothing passes it unchecked; what is refused here says where, what was expected and what came.

import { $, Array, Number, Object } from "./primordials.js";
import { ArgumentError } from "./errors.js";
import { inspect } from "./web/inspect.js";

/// The largest number of milliseconds that passes the border unrounded.
export const MAX_MS = Number.MAX_SAFE_INTEGER;

/// Numbers of 32 bits pass the border as signed ones.
const MAX_U32 = 0x7fff_ffff;

export function refuse(where, expected, got, code) {
  throw new ArgumentError(`${where}: expected ${expected}, got ${brief(got)}`, { code });
}

export function brief(value) {
  const text = inspect(value, { depth: 1 });
  return text.length > 120 ? `${text[$.slice](0, 117)}...` : text;
}

export function text(where, value, given) {
  if (typeof value !== "string") refuse(where, "a string", value);
  if (value === "" && given?.empty !== true) refuse(where, "a string that is not empty", value);
  return value[$.toWellFormed]();
}

export function optionalText(where, value) {
  return value == null ? null : text(where, value);
}

export function func(where, value) {
  if (typeof value !== "function") refuse(where, "a function", value);
  return value;
}

export function flag(where, value, fallback) {
  if (value === undefined) return fallback;
  if (typeof value !== "boolean") refuse(where, "true or false", value);
  return value;
}

/// Whole milliseconds, 0 or more, or null where nothing is given.
export function optionalMs(where, value, code) {
  if (value == null) return null;
  if (!Number.isInteger(value) || value < 0 || value > MAX_MS) {
    refuse(where, "a whole number of milliseconds, 0 or more", value, code);
  }
  // -0 is no number of milliseconds at the border.
  return value + 0;
}

export function optionalCount(where, value, code) {
  if (value == null) return null;
  if (!Number.isInteger(value) || value < 0 || value > MAX_U32) refuse(where, "a whole number, 0 or more", value, code);
  // The engine keeps a whole number that was computed with fractions as a float; at the border it must be an integer.
  return value | 0;
}

export function optionalNumber(where, value, code) {
  if (value == null) return null;
  if (typeof value !== "number" || !Number.isFinite(value)) refuse(where, "a finite number", value, code);
  return value;
}

export function oneOf(where, value, names) {
  if (!names[$.includes](value)) refuse(where, names[$.map]((name) => `"${name}"`)[$.join](", "), value);
  return value;
}

export function texts(where, value) {
  if (value === undefined) return [];
  if (!Array.isArray(value)) refuse(where, "an array of strings", value);
  return Array.from(value, (item, index) => text(`${where}[${index}]`, item));
}

/// An object of options with no other field than `fields`; nothing at all counts as an empty one.
export function options(where, value, fields, code) {
  if (value === undefined || value === null) return {};
  names(where, value, fields, code);
  return value;
}

/// The names of an object's own fields, all of which are among `fields`.
export function names(where, value, fields, code) {
  if (typeof value !== "object" || Array.isArray(value)) refuse(where, "an object of options", value, code);
  const own = Object.keys(value);
  for (let at = 0; at < own.length; at++) {
    if (!fields[$.includes](own[at])) {
      const known = fields.length ? `known are ${fields[$.join](", ")}` : "none is known";
      throw new ArgumentError(`${where}: unknown field "${own[at]}"; ${known}`, { code });
    }
  }
  return own;
}

// `JSON.stringify` with a bound on depth, and a word on what it makes something else of.

import { $, Array, JSON, Number, Object, Promise, arrayPrototype, isView, NativeMap, NativeSet, objectPrototype } from "./primordials.js";

/// Levels of arrays and objects in each other. The engine's reader and writer call themselves for each level, and a guest that
/// runs out of stack is lost with all that is under way in it.
const MAX_DEPTH = 500;

/// Levels of a value that are looked through before it is written.
const PLAIN_DEPTH = 8;

/// `JSON.stringify`, which refuses what is nested too deeply. What it makes something else of is told in `lost`.
export function stringify(value, lost) {
  // Most values are, and to be called back for all that is in one costs almost twice as much as to look through it.
  if (isPlain(value, PLAIN_DEPTH)) return JSON.stringify(value);
  // The objects that lead to the present one, outermost first, and under which key each next one stands.
  const holders = [];
  const keys = [];
  return JSON.stringify(value, function (key, item) {
    while (holders.length > 0 && holders[holders.length - 1] !== this) {
      holders[$.pop]();
      keys[$.pop]();
    }
    if (typeof item !== "object" || item === null) {
      if (typeof item === "bigint") throw new TypeError(`${place(keys, key)} is a BigInt: write it as a text, String(value)`);
      if (lost && typeof item === "number" && !Number.isFinite(item)) lost[$.push](`${place(keys, key)}, ${item}, becomes null`);
      return item;
    }
    if (holders.length > MAX_DEPTH) throw new RangeError(`it is nested more than ${MAX_DEPTH} levels deep`);
    if (lost) tellLost(lost, item, keys, key);
    holders[$.push](item);
    keys[$.push](key);
    return item;
  });
}

/// Whether a value is made of plain objects, arrays and what JSON has a form for: nothing in it is lost, and it is not nested deeply.
function isPlain(value, levels) {
  if (levels === 0 || typeof value !== "object" || value === null) return false;
  const list = Array.isArray(value);
  if (Object.getPrototypeOf(value) !== (list ? arrayPrototype : objectPrototype)) return false;
  const keys = list ? value : Object.keys(value);
  for (let at = 0; at < keys.length; at++) {
    const item = list ? value[at] : value[keys[at]];
    switch (typeof item) {
      case "string":
      case "boolean":
      case "undefined":
        break;
      case "number":
        if (!Number.isFinite(item)) return false;
        break;
      case "object":
        if (item !== null && !isPlain(item, levels - 1)) return false;
        break;
      default:
        return false;
    }
  }
  return true;
}

/// Classes of which JSON keeps little or nothing: what one is called, what becomes of it, what to write instead.
const LOSSY = [
  [NativeMap, "a Map", "{}", "write Object.fromEntries(map) or [...map]"],
  [NativeSet, "a Set", "{}", "write [...set]"],
  [Promise, "a promise", "{}", "await it"],
  [RegExp, "a regular expression", "{}", "write its source"],
  [ArrayBuffer, "an ArrayBuffer", "{}", "write [...new Uint8Array(buffer)]"],
];

/// A class of the SDK's that is to be told of like those of the language.
export function tellOfLoss(Type, what, becomes, instead) {
  LOSSY[$.push]([Type, what, becomes, instead]);
}

function tellLost(lost, item, keys, key) {
  const prototype = Object.getPrototypeOf(item);
  if (prototype === objectPrototype || prototype === null || Array.isArray(item)) return;
  if (item instanceof Error) {
    lost[$.push](`${place(keys, key)}, an error, loses its name and message: write String(error)`);
    return;
  }
  const found = isView(item)
    ? [null, "an array of numbers", "an object with a field for each", "write [...array]"]
    : LOSSY[$.find]((lossy) => item instanceof lossy[0]);
  if (found) lost[$.push](`${place(keys, key)}, ${found[1]}, becomes ${found[2]}: ${found[3]}`);
}

/// Where a value stands in what is written, as one would write it in code.
function place(keys, key) {
  if (keys.length === 0) return "the value itself";
  const parts = [...keys[$.slice](1), key][$.map]((part) => (/^(0|[1-9]\d*)$/[$.test](part) ? `[${part}]` : `.${part}`));
  return parts.length > 8 ? `${parts[$.slice](0, 8)[$.join]("")}…` : parts[$.join]("");
}

// `JSON.stringify` with a bound on depth, and a word on what it makes something else of.

import { $, JSON, Number, Object, Promise, NativeMap, NativeSet } from "./primordials.js";

/// Levels of arrays and objects in each other. The engine's reader and writer call themselves for each level, and a guest that
/// runs out of stack is lost with all that is under way in it.
const MAX_DEPTH = 500;

/// `JSON.stringify`, which refuses what is nested too deeply. What it makes something else of is told in `lost`.
export function stringify(value, lost) {
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

function tellLost(lost, item, keys, key) {
  const tell = (what, instead) => lost[$.push](`${place(keys, key)}, ${what}, becomes {}: ${instead}`);
  if (item instanceof NativeMap) tell("a Map", "write Object.fromEntries(map) or [...map]");
  else if (item instanceof NativeSet) tell("a Set", "write [...set]");
  else if (item instanceof Promise) tell("a promise", "await it");
  else if (item instanceof Error) lost[$.push](`${place(keys, key)}, an error, loses its name and message: write String(error)`);
}

/// Where a value stands in what is written, as one would write it in code.
function place(keys, key) {
  if (keys.length === 0) return "the value itself";
  const parts = [...keys[$.slice](1), key][$.map]((part) => (/^(0|[1-9]\d*)$/[$.test](part) ? `[${part}]` : `.${part}`));
  return parts.length > 8 ? `${parts[$.slice](0, 8)[$.join]("")}…` : parts[$.join]("");
}

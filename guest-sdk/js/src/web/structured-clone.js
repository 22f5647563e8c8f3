// `structuredClone`: deep copies of data, cycles included. Functions and symbols are refused.

import { $, Map as SafeMap, Object, isView, tagOf, timeOf, objectPrototype, DOMException } from "../primordials.js";
import { isBuffer } from "./encoding.js";

const ERRORS = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

export function structuredClone(value) {
  return clone(value, new SafeMap());
}

function clone(value, seen) {
  if (typeof value === "function" || typeof value === "symbol") {
    throw new DOMException(`a ${typeof value} cannot be cloned`, "DataCloneError");
  }
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const kind = tagOf(value)[$.slice](8, -1);
  const copy = emptyCopy(value, kind, seen);
  seen.set(value, copy);
  fill(copy, value, kind, seen);
  return copy;
}

function emptyCopy(value, kind, seen) {
  if (isBuffer(value)) return value[$.slice](0);
  if (isView(value)) {
    const length = value instanceof DataView ? value.byteLength : value.length;
    return new value.constructor(clone(value.buffer, seen), value.byteOffset, length);
  }
  switch (kind) {
    case "Array":
      return new globalThis.Array(value.length);
    case "Map":
      return new Map();
    case "Set":
      return new Set();
    case "Date":
      return new Date(timeOf(value));
    case "RegExp":
      return new RegExp(value.source, value.flags);
    case "Boolean":
    case "Number":
    case "String":
    case "BigInt":
      return globalThis.Object(value.valueOf());
    case "Error":
      return new (ERRORS[value.name] ?? Error)(value.message);
    case "Promise":
    case "WeakMap":
    case "WeakSet":
    case "WeakRef":
      throw new DOMException(`a ${kind} cannot be cloned`, "DataCloneError");
    default:
      return {};
  }
}

function fill(copy, value, kind, seen) {
  if (kind === "Map") for (const [key, item] of [...value]) copy.set(clone(key, seen), clone(item, seen));
  else if (kind === "Set") for (const item of [...value]) copy.add(clone(item, seen));
  else if (kind === "Error") {
    if ("cause" in value) Object.defineProperty(copy, "cause", { value: clone(value.cause, seen), writable: true, configurable: true });
  } else if (kind === "Array" || (Object.getPrototypeOf(copy) === objectPrototype && !isBuffer(value) && !isView(value))) {
    for (const key of Object.keys(value)) {
      Object.defineProperty(copy, key, { value: clone(value[key], seen), writable: true, configurable: true, enumerable: true });
    }
  }
}

// A readable text of any value, for log lines and error messages. It never throws, whatever getters, proxies and cycles it
// meets, and it ends: depth, breadth and length are bounded.

import { $, Array, JSON, Number, Object, Promise, String, isView, sourceOf, NativeMap, NativeSet } from "../primordials.js";

const MAX_ITEMS = 100;
const MAX_CHARS = 16_384;
const PLAIN_KEY = /^[A-Za-z_$][\w$]*$/;

export function inspect(value, { depth = 4 } = {}) {
  const state = { seen: [], depth, budget: MAX_CHARS };
  return write(value, state, true);
}

function write(value, state, top) {
  let text;
  try {
    text = describe(value, state, top);
  } catch {
    text = "[cannot be shown]";
  }
  state.budget -= text.length;
  return text;
}

function describe(value, state, top) {
  switch (typeof value) {
    case "string":
      return quote(value);
    case "bigint":
      return `${value}n`;
    case "symbol":
      return value.toString();
    case "number":
      return Object.is(value, -0) ? "-0" : String(value);
    case "function":
      return describeFunction(value);
    case "object":
      return value === null ? "null" : describeObject(value, state, top);
    default:
      return String(value);
  }
}

function quote(text) {
  return text.length > MAX_CHARS ? `${JSON.stringify(text[$.slice](0, MAX_CHARS))}...` : JSON.stringify(text);
}

function describeFunction(value) {
  const name = typeof value.name === "string" && value.name ? ` ${value.name}` : "";
  return /^class\b/[$.test](sourceOf(value)) ? `[class${name}]` : `[function${name}]`;
}

function describeObject(value, state, top) {
  if (state.seen[$.includes](value)) return "[circular]";
  if (state.budget <= 0) return "...";
  if (value instanceof Error) return describeError(value, state, top);
  if (value instanceof Date) return Number.isNaN(value[$.getTime]()) ? "[invalid Date]" : value[$.toISOString]();
  if (value instanceof RegExp) return String(value);
  if (value instanceof Promise) return "Promise {}";
  if (state.seen.length >= state.depth) return Array.isArray(value) ? "[...]" : "{...}";
  state.seen[$.push](value);
  try {
    return describeContents(value, state);
  } finally {
    state.seen[$.pop]();
  }
}

function describeContents(value, state) {
  if (Array.isArray(value)) return list("[", value, "]", state, (item) => write(item, state));
  if (isView(value) && !(value instanceof DataView)) {
    return list(`${typeName(value)} [`, value, "]", state, String);
  }
  if (value instanceof ArrayBuffer) return `ArrayBuffer { ${value.byteLength} bytes }`;
  if (value instanceof NativeMap) {
    return list("Map {", value, "}", state, ([key, item]) => `${write(key, state)} => ${write(item, state)}`);
  }
  if (value instanceof NativeSet) return list("Set {", value, "}", state, (item) => write(item, state));
  const name = typeName(value);
  const open = name === "Object" ? "{" : `${name || "[no prototype]"} {`;
  return list(open, Object.keys(value), "}", state, (key) => field(value, key, state));
}

function field(value, key, state) {
  const label = PLAIN_KEY[$.test](key) ? key : quote(key);
  let item;
  try {
    item = value[key];
  } catch {
    return `${label}: [getter threw]`;
  }
  return `${label}: ${write(item, state)}`;
}

function list(open, items, close, state, show) {
  const parts = [];
  for (const item of items) {
    if (parts.length === MAX_ITEMS || state.budget <= 0) {
      parts[$.push]("...");
      break;
    }
    parts[$.push](show(item));
  }
  if (parts.length === 0) return open + close;
  const gap = open[$.endsWith]("[") ? "" : " ";
  return `${open}${gap}${parts[$.join](", ")}${gap}${close}`;
}

/// `Name: message`, its own further fields, its causes; with its stack where it is the thing to be shown.
function describeError(error, state, top) {
  const heading = `${error.name}: ${error.message}`;
  const stack = top && typeof error.stack === "string" ? error.stack[$.trimEnd]() : "";
  // Engines differ in whether the stack repeats the heading.
  let text = stack[$.includes](error.message) && stack[$.startsWith](String(error.name)) ? stack : heading + (stack && `\n${stack}`);
  if (state.seen.length >= state.depth) return text;
  state.seen[$.push](error);
  try {
    const keys = Object.keys(error)[$.filter]((key) => key !== "stack" && key !== "message");
    if (keys.length > 0) text += ` ${list("{", keys, "}", state, (key) => field(error, key, state))}`;
    const { cause } = error;
    if (cause !== undefined) text += ` [cause: ${write(cause, state)}]`;
  } finally {
    state.seen[$.pop]();
  }
  return text;
}

function typeName(value) {
  const prototype = Object.getPrototypeOf(value);
  if (prototype === null) return "";
  const name = prototype.constructor?.name;
  return typeof name === "string" && name ? name : "Object";
}

// `console`, into the run's log: one entry a call.

import { $, Map, Number, String } from "../primordials.js";
import * as host from "../host.js";
import { stringify } from "../stringify.js";
import { inspect } from "./inspect.js";

const counts = new Map();
const starts = new Map();
let indent = "";

export const console = {
  log: line("info"),
  info: line("info"),
  warn: line("warn"),
  error: line("error"),
  debug: line("debug"),
  trace: line("trace"),
  dir: (value) => write("info", inspect(value)),
  table: (value) => write("info", inspect(value)),
  assert(condition, ...args) {
    if (!condition) write("error", args.length ? `Assertion failed: ${format(args)}` : "Assertion failed");
  },
  count(label = "default") {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    write("info", `${label}: ${counts.get(label)}`);
  },
  countReset: (label = "default") => void counts.delete(label),
  group(...args) {
    if (args.length) write("info", format(args));
    indent += "  ";
  },
  groupEnd() {
    indent = indent[$.slice](2);
  },
  time: (label = "default") => void starts.set(label, host.nowMs()),
  timeLog(label = "default") {
    if (starts.has(label)) write("info", `${label}: ${host.nowMs() - starts.get(label)} ms`);
  },
  timeEnd(label = "default") {
    console.timeLog(label);
    starts.delete(label);
  },
};
console.groupCollapsed = console.group;

function line(level) {
  return (...args) => write(level, format(args));
}

function write(level, text) {
  host.log(level, (indent + text)[$.toWellFormed](), null);
}

/// The text of a call's arguments: `%s` and its kin in a first string, everything else in readable form.
export function format(args) {
  const [first, ...rest] = args;
  if (typeof first !== "string") return args[$.map](show)[$.join](" ");
  let used = 0;
  const head = first[$.replace](/%([sdifjoOc%])/g, (all, kind) => {
    if (kind === "%") return "%";
    if (used >= rest.length) return all;
    return substitute(kind, rest[used++]);
  });
  return [rest.length ? head : first, ...rest[$.slice](used)[$.map](show)][$.join](" ");
}

function substitute(kind, value) {
  try {
    if (kind === "s") return typeof value === "object" || typeof value === "function" ? inspect(value, { depth: 1 }) : String(value);
    if (kind === "d") return typeof value === "bigint" ? `${value}n` : String(Number(value));
    if (kind === "i") return typeof value === "bigint" ? `${value}n` : String(parseInt(value, 10));
    if (kind === "f") return String(parseFloat(value));
    if (kind === "j") return stringify(value) ?? "undefined";
    if (kind === "c") return "";
  } catch {
    return "[cannot be shown]";
  }
  return inspect(value);
}

function show(value) {
  return typeof value === "string" ? value : inspect(value);
}

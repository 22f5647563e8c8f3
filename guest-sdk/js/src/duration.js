// Durations and points in time as authors write them: "2 days", "1.5 h", 90000, a Date. The results are whole milliseconds.

import { $, Map, Math, Number, parseDate, timeOf } from "./primordials.js";
import { MAX_MS, refuse } from "./check.js";
import { MAX_RETRY_AFTER_MS, defineRetryAfterError } from "./errors.js";
import { now } from "./clock.js";

const UNITS = [
  [1, ["ms", "msec", "msecs", "millisecond", "milliseconds"]],
  [1_000, ["s", "sec", "secs", "second", "seconds"]],
  [60_000, ["m", "min", "mins", "minute", "minutes"]],
  [3_600_000, ["h", "hr", "hrs", "hour", "hours"]],
  [86_400_000, ["d", "day", "days"]],
  [604_800_000, ["w", "week", "weeks"]],
];
const FACTORS = new Map(UNITS[$.flatMap](([factor, names]) => names[$.map]((name) => [name, factor])));
const EXPECTED = 'a duration: milliseconds, or a text such as "30 s", "1.5 h", "2 days", "1 h 30 min"';

/// Milliseconds of a duration. A fraction of a millisecond is rounded up, so that nothing happens early.
export function durationMs(where, value) {
  const ms = typeof value === "string" ? parseDuration(value) : value;
  if (isDate(value)) refuse(where, `${EXPECTED}; for a point in time there is sleepUntil`, value);
  if (typeof ms !== "number" || !(ms >= 0) || ms > MAX_MS) refuse(where, EXPECTED, value);
  return Math.ceil(ms) + 0;
}

function parseDuration(source) {
  const rest = source[$.trim]()[$.toLowerCase]();
  const part = /(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)\s*/y;
  let total = 0;
  while (part.lastIndex < rest.length) {
    const found = part[$.exec](rest);
    const factor = found && FACTORS.get(found[2]);
    if (!factor) return NaN;
    total += Number(found[1]) * factor;
  }
  // 1.1 h is 3960000.0000000005 in floating point: that is no fraction of a millisecond that anybody meant.
  return rest === "" ? NaN : Math.round(total * 1000) / 1000;
}

/// Milliseconds since the Unix epoch of a Date, a number of ms, or a date text.
export function instantMs(where, value) {
  let ms = value;
  if (isDate(value)) ms = timeOf(value);
  else if (typeof value === "string") ms = parseDate(value);
  if (typeof ms !== "number" || !(Math.abs(ms) <= 8.64e15)) {
    refuse(where, "a point in time: a Date, milliseconds since the Unix epoch, or a date text", value);
  }
  return Math.ceil(ms);
}

function isDate(value) {
  try {
    timeOf(value);
    return true;
  } catch {
    return false;
  }
}

/// Thrown by a step's body: the next attempt comes after this time, in place of the policy's delay. From 0 to 24 h.
export const RetryAfterError = defineRetryAfterError((value) => {
  const where = "RetryAfterError, retryAfter";
  const ms = isDate(value) ? Math.max(0, instantMs(where, value) - now()) : durationMs(where, value);
  if (ms > MAX_RETRY_AFTER_MS) refuse(where, "at most 24 hours", value);
  return ms;
});

// Which statuses are worth retrying, and when: the rule that every SDK shares. Whether anything happened at the other side is
// another question, which the host answers.

import { $, Math, Number, utc } from "../primordials.js";
import { now } from "../clock.js";
import { HttpError, MAX_RETRY_AFTER_MS } from "../errors.js";

/// 409 and 425 are retried under a key whose outcome is unknown. Only the host knows that: here they are not retried, and it
/// overrides that by the error's code and `details.status`.
const RETRIED = [408, 429, 500, 502, 503, 504];
const SHOWN_CHARS = 500;

/// Throws the error of a response whose status is none of 2xx.
export async function refused(response) {
  const { status, method } = response;
  const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), now);
  const url = withoutQuery(response.url);
  const body = response.bodyUsed ? "" : (await response.clone().text())[$.slice](0, SHOWN_CHARS);
  const details = { status, method, url };
  if (body !== "") details.body = body;
  if (retryAfterMs !== null) details.retryAfterMs = retryAfterMs;
  const retry = RETRIED[$.includes](status) ? retryAfterMs : "never";
  const text = `${method} ${url} answered ${status}${body === "" ? "" : `: ${body}`}`;
  throw new HttpError("workflows.http_status", text, { details, retry });
}

/// What stands in a URL's query may be a secret.
function withoutQuery(url) {
  return url[$.replace](/[?#].*$/s, "")[$.replace](/\/\/[^/]*@/, "//");
}

/// Milliseconds of a `Retry-After`: seconds or an HTTP date; null where it is neither. At most 24 h.
export function parseRetryAfter(value, clock) {
  if (value === null) return null;
  const text = value[$.trim]();
  const ms = /^\d+$/[$.test](text) ? Number(text) * 1000 : httpDate(text) - clock();
  return Number.isNaN(ms) ? null : Math.min(Math.max(0, ms), MAX_RETRY_AFTER_MS);
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const FORMS = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  /^[a-z]{3}, (?<day>\d{1,2}) (?<month>[a-z]{3}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) (?:gmt|utc)$/i,
  // Sunday, 06-Nov-94 08:49:37 GMT
  /^[a-z]+, (?<day>\d{1,2})-(?<month>[a-z]{3})-(?<year>\d\d(?:\d\d)?) (?<time>\d\d:\d\d:\d\d) gmt$/i,
  // Sun Nov  6 08:49:37 1994
  /^[a-z]{3} (?<month>[a-z]{3}) +(?<day>\d{1,2}) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/i,
];

/// Ms since the Unix epoch of an HTTP date in any of its three forms, or NaN.
function httpDate(text) {
  const groups = FORMS[$.map]((form) => form[$.exec](text)?.groups)[$.find]((found) => found !== undefined);
  const month = MONTHS[$.indexOf](groups?.month[$.toLowerCase]());
  if (!groups || month < 0) return NaN;
  const [hours, minutes, seconds] = groups.time[$.split](":")[$.map](Number);
  let year = Number(groups.year);
  if (groups.year.length === 2) year += year < 70 ? 2000 : 1900;
  return utc(year, month, Number(groups.day), hours, minutes, seconds);
}

// `fetch`: of an attempt (in a body's context), and the ambient one, which finds its attempt by whose turn it is.

import { $, JSON, Math, Promise, deferred } from "../primordials.js";
import * as host from "../host.js";
import { WorkflowError } from "../errors.js";
import { openAttempts, openRequest, turnOwner } from "../turn.js";
import { msLeft } from "../web/abort.js";
import { URL } from "../web/url.js";
import { Headers } from "./headers.js";
import { Request, describe, isSafe, outgoing, sentUrl } from "./request.js";
import { Response } from "./response.js";

const MAX_REDIRECTS = 20;
const REDIRECTS = [301, 302, 303, 307, 308];
const CREDENTIALS = ["authorization", "cookie", "proxy-authorization", "idempotency-key"];

/// A `fetch` whose requests belong to the attempt that `find` answers.
export function fetchOf(find) {
  return async (input, init) => {
    const request = new Request(input, init);
    return await send(find(request), request);
  };
}

/// The global `fetch`. Where it is refused it throws at the call, so that a promise nobody looks at hides nothing.
export function ambientFetch(input, init) {
  if (!host.isLive()) return host.httpSend();
  const owner = turnOwner();
  if (owner === null) {
    throw refusal("fetch was called in workflow code: requests are made in the body of a step, by step.run(name, ({ fetch }) => ...)");
  }
  const request = new Request(input, init);
  if (openAttempts() > 1 && !isSafe(request.method)) {
    throw refusal(
      `the global fetch cannot tell to which of ${openAttempts()} running steps a ${request.method} belongs: ` +
        "use the step's own, step.run(name, ({ fetch }) => ...)",
    );
  }
  return send(owner, request);
}

function refusal(text) {
  return new WorkflowError("workflows.effect_outside_step", text, { retry: "never" });
}

/// Sends a request for an attempt. Redirects of safe requests are followed, unless they are not to be; those of others are answers like any other.
export async function send(attempt, request) {
  const sent = outgoing(request);
  const { promise, resolve, reject } = deferred(Promise);
  transmit(attempt, sent, resolve, reject);
  return await promise;
}

/// Sends what `outgoing` made for an attempt, and tells its end to one of the two. Throws where it is not sent at all.
export function transmit(attempt, sent, resolve, reject, first = sent, redirects = 0) {
  const { signal } = sent;
  if (signal !== null) signal.throwIfAborted();
  const described = describe(sent);
  const until = described.timeoutMs === null ? null : host.nowMs() + described.timeoutMs;
  const safe = isSafe(sent.method);
  if (signal !== null && !safe) described.timeoutMs = within(described.timeoutMs, msLeft(signal));
  let over = false;
  const answered = (answer) => {
    if (over) return;
    try {
      const target = redirectTarget(answer, sent);
      if (target === null) resolve(Response.answered(answer, sent, redirects > 0));
      else transmit(attempt, redirected(sent, target, first, redirects, until), resolve, reject, first, redirects + 1);
    } catch (error) {
      reject(error);
    }
  };
  let failed = reject;
  if (signal !== null) {
    // A request that may have changed something cannot be taken back: a body that gave up on its answer would ask for the same again,
    // and have it done twice. So its answer is awaited, for as long as its time-out and that of its signal say.
    if (!safe) failed = (error) => reject(signal.aborted ? signal.reason : error);
  }
  openRequest(attempt, described, answered, failed);
  if (signal !== null && safe) {
    const abandoned = () => {
      over = true;
      reject(signal.reason);
    };
    signal.addEventListener("abort", abandoned, { once: true });
  }
}

function within(timeoutMs, left) {
  if (left === Infinity) return timeoutMs;
  return Math.min(timeoutMs ?? Infinity, Math.max(1, Math.ceil(left)));
}

/// Where a redirect leads; null where the answer stands as it is. The host follows none.
function redirectTarget(answer, sent) {
  if (answer.status < 301 || !REDIRECTS[$.includes](answer.status)) return null;
  if (sent.redirect === "manual" || !isSafe(sent.method)) return null;
  const location = Headers.received(answer.headers).get("location");
  if (location === null) return null;
  if (sent.redirect === "error") throw new TypeError(`fetch: ${sent.url} redirects, and redirect is "error"`);
  const target = URL.parse(location, sent.url);
  if (target === null) throw new TypeError(`fetch: ${sent.url} redirects to ${JSON.stringify(location)}, which is no URL`);
  return target;
}

/// What is sent to where a request is redirected to, in the time that is left. Another origin gets nothing that was meant for the first alone.
function redirected(sent, target, first, redirects, until) {
  if (redirects === MAX_REDIRECTS) throw new TypeError(`fetch: more than ${MAX_REDIRECTS} redirects from ${first.url}`);
  const url = sentUrl(target);
  const timeoutMs = until === null ? null : Math.max(1, until - host.nowMs());
  const pairs = Headers.sorted(new Headers(sent.pairs));
  if (target.origin === new URL(sent.url).origin) return { ...sent, url, pairs, timeoutMs, bytes: null };
  return { ...sent, url, pairs: pairs[$.filter](isForAnybody), timeoutMs, key: undefined, bytes: null };
}

function isForAnybody([name, value]) {
  return !CREDENTIALS[$.includes](name) && !value[$.includes]("${secret:");
}

// `fetch`: of an attempt (in a body's context), and the ambient one, which finds its attempt by whose turn it is.

import { $, Promise } from "../primordials.js";
import * as host from "../host.js";
import { WorkflowError } from "../errors.js";
import { openAttempts, openExchange, turnOwner } from "../turn.js";
import { URL } from "../web/url.js";
import { Headers } from "./headers.js";
import { Request, describeRequest, isSafe } from "./request.js";
import { Response } from "./response.js";

const MAX_REDIRECTS = 20;
const REDIRECTS = [301, 302, 303, 307, 308];

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

/// Sends a request for an attempt. Redirects of safe requests are followed; those of others are answers like any other.
export async function send(attempt, request) {
  let current = request;
  for (let redirects = 0; ; redirects++) {
    const answer = await exchange(attempt, current);
    const response = Response.answered(answer, current, redirects > 0);
    const target = redirectTarget(response, current);
    if (target === null) return response;
    if (current.redirect === "error") throw new TypeError(`fetch: ${current.url} redirects, and redirect is "error"`);
    if (redirects === MAX_REDIRECTS) throw new TypeError(`fetch: more than ${MAX_REDIRECTS} redirects from ${request.url}`);
    current = redirected(current, target);
  }
}

async function exchange(attempt, request) {
  const { signal } = request;
  signal?.throwIfAborted();
  const described = describeRequest(request);
  const answer = openExchange(attempt, `${request.method} ${request.url}`, (id) => host.httpSend(id, described));
  if (!signal) return await answer;
  return await new Promise((resolve, reject) => {
    answer[$.then](resolve, reject);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function redirectTarget(response, request) {
  const location = response.headers.get("location");
  if (!REDIRECTS[$.includes](response.status) || location === null) return null;
  if (!isSafe(request.method) || request.redirect === "manual") return null;
  return URL.parse(location, request.url);
}

/// Another origin gets none of the credentials.
function redirected(request, target) {
  const headers = new Headers(request.headers);
  if (target.origin !== new URL(request.url).origin) {
    for (const name of ["authorization", "cookie", "proxy-authorization"]) headers.delete(name);
  }
  return new Request(target, { ...request, headers });
}

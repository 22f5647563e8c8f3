// Gives the module the globals that the engine lacks, and those of the host in place of the engine's own clock and randomness.

import { $, Object, Promise } from "./primordials.js";
import { random } from "./clock.js";
import { watchDropped } from "./floating.js";
import { installPromiseRace } from "./operations.js";
import { AbortController, AbortSignal } from "./web/abort.js";
import { console } from "./web/console.js";
import { crypto } from "./web/crypto.js";
import { installDate } from "./web/date.js";
import { TextDecoder, TextEncoder } from "./web/encoding.js";
import { CustomEvent, Event, EventTarget } from "./web/event-target.js";
import { performance } from "./web/performance.js";
import { URLSearchParams } from "./web/search-params.js";
import { structuredClone } from "./web/structured-clone.js";
import { clearTimer, setImmediate, setInterval, setTimeout } from "./web/timers.js";
import { URL } from "./web/url.js";
import { ambientFetch } from "./http/fetch.js";
import { Headers } from "./http/headers.js";
import { Request } from "./http/request.js";
import { Response } from "./http/response.js";

const GLOBALS = {
  AbortController, AbortSignal, CustomEvent, Event, EventTarget, Headers, Request, Response, TextDecoder, TextEncoder, URL,
  URLSearchParams, clearImmediate: clearTimer, clearInterval: clearTimer, clearTimeout: clearTimer, console, crypto,
  fetch: ambientFetch, performance, queueMicrotask, setImmediate, setInterval, setTimeout, structuredClone,
};

for (const [name, value] of Object.entries(GLOBALS)) define(globalThis, name, value);
// What the build makes of a statement that drops a call's value: `work();` is `ǃ(work(), line);`.
define(globalThis, "ǃ", watchDropped);
define(globalThis.Math, "random", random);
installDate();
installPromiseRace();

function queueMicrotask(callback) {
  if (typeof callback !== "function") throw new TypeError("queueMicrotask: expected a function");
  new Promise((resolve) => resolve())[$.then](() => callback())[$.catch]((error) => console.error("uncaught in a microtask:", error));
}

function define(target, name, value) {
  Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });
}

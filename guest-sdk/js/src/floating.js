// Promises that a statement lets go. The engine says nothing of a rejection that nobody handles, so the build hands the value of
// each call that an author's statement drops to `watchDropped`: nobody else has it, and a rejection of it is told in the log.

import { $, Promise } from "./primordials.js";
import * as host from "./host.js";
import { ResponsePromise } from "./http/client.js";
import { isTraced } from "./operations.js";
import { messageOf } from "./record.js";

export function watchDropped(value, line) {
  // Operations, what is made from them by `then`, and requests are told of by their names, elsewhere.
  if (value instanceof Promise && !isTraced(value) && !(value instanceof ResponsePromise)) {
    value[$.then](undefined, (error) => {
      host.log("error", `the promise that line ${line} lets go was rejected, and nothing awaits it: ${messageOf(error)}`[$.toWellFormed](), null);
    });
  }
  return value;
}

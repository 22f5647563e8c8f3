// Where in the author's code an error was made, from its stack: a record has no place for that, so it is told in the log.

import { $ } from "./primordials.js";
import { HttpError, StepError, WorkflowError } from "./errors.js";

/// Frames that are told, innermost first.
const SHOWN = 3;
/// What the language or the SDK throws where the code is at fault. Other errors in a body are the author's own, and say enough.
const FAULTS = [TypeError, ReferenceError, RangeError, SyntaxError, WorkflowError];

/// The place of a fault of the code, e.g. `total (orders.ts:3:9), <anonymous> (orders.ts:12:4)`; null for other errors.
export function placeOfFault(thrown) {
  try {
    return FAULTS[$.some]((Type) => thrown instanceof Type) ? placeOf(thrown) : null;
  } catch {
    return null;
  }
}

/// The place of any error but those that were made of a record: what an operation failed with, or a status.
export function placeOf(thrown) {
  try {
    if (!(thrown instanceof Error) || thrown instanceof StepError || thrown instanceof HttpError) return null;
    const frames = authorsFrames(thrown);
    return frames.length > 0 ? frames[$.slice](0, SHOWN)[$.join](", ") : null;
  } catch {
    return null;
  }
}

/// Whether the code that is running was called by a package, and not by the author's own.
export function isCalledByPackage() {
  return authorsFrames(new Error())[0]?.[$.includes]("node_modules/") === true;
}

function authorsFrames(error) {
  const lines = error.stack[$.split]("\n")[$.map]((line) => line[$.trim]());
  const frames = lines[$.filter]((line) => line[$.startsWith]("at ") && !line[$.includes]("stepwell:") && !line[$.includes]("(native)"));
  return frames[$.map]((line) => line[$.slice](3));
}

// The errors that Stepwell throws, and those that a workflow's author throws to steer retries.
//
// Classes only. How any thrown value becomes a record, and a record an error again, is in `record.js`.

import { Object } from "./primordials.js";

/// How an error wants to be retried: absent (by the step's policy), "never", or a number of ms. A symbol, so that no field
/// of an author's own error is taken for it, and never read from a message.
export const RETRY = Symbol("stepwell.retry");

/// The longest delay that an error can ask for.
export const MAX_RETRY_AFTER_MS = 86_400_000;

/// Sets fields that belong to the error but do not clutter its listing.
export function hidden(object, fields) {
  for (const [key, value] of Object.entries(fields)) {
    Object.defineProperty(object, key, { value, writable: true, configurable: true, enumerable: false });
  }
}

/// Anything that Stepwell itself refuses or reports.
export class WorkflowError extends Error {
  constructor(code, message, options = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    hidden(this, { name: options.name ?? new.target.name });
    this.code = code;
    if (options.details !== undefined) this.details = options.details;
    this.outcomeUnknown = options.outcomeUnknown === true;
    if (options.retry != null) Object.defineProperty(this, RETRY, { value: options.retry, configurable: true });
  }

  /// An error's name and message would be left out, for instance of what `Promise.allSettled` gives.
  toJSON() {
    const { name, message, code, details, outcomeUnknown } = this;
    return { name, message, code, details, outcomeUnknown };
  }
}

/// What a failed operation throws into the workflow: the step's last error, as it was recorded.
export class StepError extends WorkflowError {}

/// A status that `ensureOk` turned into an error.
export class HttpError extends WorkflowError {
  get status() {
    return this.details?.status;
  }
}

/// A value of the wrong form, given to the SDK. The same call would be refused again, so it is never retried.
export class ArgumentError extends TypeError {
  constructor(message, options = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    hidden(this, { name: "TypeError" });
    this.code = options.code ?? "workflows.invalid_argument";
    Object.defineProperty(this, RETRY, { value: "never", configurable: true });
  }
}

/// Thrown by a step's body: no further attempt, whatever the policy says.
export class NonRetriableError extends Error {
  constructor(message = "", options = {}) {
    super(message, options);
    adorn(this, new.target.name, options);
    Object.defineProperty(this, RETRY, { value: "never", configurable: true });
  }
}

/// Thrown by a step's body: the next attempt after this time, in place of the policy's delay.
/// `retryAfter` is a duration (ms or text), or a `Date`; `parse` turns it into ms.
export function defineRetryAfterError(parse) {
  return class RetryAfterError extends Error {
    constructor(message, retryAfter, options = {}) {
      super(message, options);
      adorn(this, new.target.name, options);
      const ms = parse(retryAfter);
      this.retryAfterMs = ms;
      Object.defineProperty(this, RETRY, { value: ms, configurable: true });
    }
  };
}

function adorn(error, name, options) {
  hidden(error, { name });
  if (options?.code !== undefined) error.code = options.code;
  if (options?.details !== undefined) error.details = options.details;
}
